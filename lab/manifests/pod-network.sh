# shellcheck shell=sh
# Runs on every node, in its network: writes this node's CNI configuration and routes to the pods of the others.
# One watch instead of questions in a loop; kubectl ends it now and then, and it starts again with the whole list.
set -u
# As process 1 of its container it would not end on SIGTERM, and hold up its node's shutdown for 90 s.
trap 'kill 0; exit 0' TERM

cni() {
    # A node that left and joined again has other pod addresses than the bridge of its past.
    if ip -o -4 address show dev cni0 2>/dev/null | grep -q inet &&
        ! ip -o -4 address show dev cni0 | grep -q "inet ${1%.*}\."; then
        ip link delete cni0
    fi
    target=/etc/cni/net.d/10-gpulab.conflist
    cat > "$target.new" <<EOF
{
  "cniVersion": "1.0.0",
  "name": "gpulab",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "hairpinMode": true,
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "ranges": [[{"subnet": "$1"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
EOF
    if cmp -s "$target.new" "$target"; then rm "$target.new"; else mv "$target.new" "$target"; fi
}

fields='{.type}{" "}{.object.metadata.name}{" "}{.object.spec.podCIDR}{" "}{.object.status.addresses[?(@.type=="InternalIP")].address}{"\n"}'
follow() {
    kubectl get nodes --watch --output-watch-events --output "jsonpath=$fields" |
        while read -r event name cidr address _; do
            if [ -z "$cidr" ] || [ -z "$address" ]; then continue; fi
            if [ "$name" = "$NODE_NAME" ]; then
                cni "$cidr"
            elif [ "$event" = DELETED ]; then
                ip route del "$cidr" via "$address" 2>/dev/null
            else
                ip route replace "$cidr" via "$address"
            fi
        done
}

while true; do
    follow &
    wait $!
    sleep 2 &
    wait $!
done
