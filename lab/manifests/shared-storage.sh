# shellcheck shell=sh
# Makes a folder of the machines' shared one for each claim of class 'shared', and a volume of it, as a provisioner for NFS does; and takes both
# away after the claim. A claim that goes while nobody watches leaves its own.
set -u
trap 'kill 0; exit 0' TERM

volume() {
    kubectl apply --filename=- <<EOF
apiVersion: v1
kind: PersistentVolume
metadata:
  name: $1
  annotations:
    # Nobody else deletes it.
    pv.kubernetes.io/provisioned-by: gpulab/shared
spec:
  storageClassName: shared
  persistentVolumeReclaimPolicy: Delete
  accessModes: [ReadWriteMany, ReadWriteOnce]
  capacity: {storage: $2}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: $3, name: $4, uid: $5}
  hostPath: {path: /srv/shared/$1, type: Directory}
EOF
}

claim='{.object.metadata.namespace}{" "}{.object.metadata.name}{" "}{.object.metadata.uid}{" "}{.object.spec.resources.requests.storage}'
fields="{.type}{\" \"}{.object.status.phase}{\" \"}$claim{\" \"}{.object.spec.storageClassName}{\"\\n\"}"
follow() {
    kubectl get persistentvolumeclaims --all-namespaces --watch --output-watch-events --output "jsonpath=$fields" |
        while read -r event phase namespace name uid size class; do
            if [ "$class" != shared ]; then continue; fi
            folder="pvc-$uid"
            if [ "$event" = DELETED ]; then
                kubectl delete persistentvolume "$folder" --wait=false
                rm -rf "/srv/shared/$folder"
            elif [ "$phase" = Pending ]; then
                # Any user of a pod may write there.
                mkdir -p "/srv/shared/$folder" && chmod 0777 "/srv/shared/$folder" && volume "$folder" "$size" "$namespace" "$name" "$uid"
            fi
        done
}

while true; do
    follow &
    wait $!
    sleep 2 &
    wait $!
done
