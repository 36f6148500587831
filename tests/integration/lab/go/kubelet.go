// A kubelet as the stand-in of dcgm-exporter sees it: a socket that says which pod holds which device.
//
// usage: kubelet SOCKET RESOURCE=DEVICE=NAMESPACE/POD/CONTAINER...
package main

import (
	"context"
	"log"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	rows []string
}

func (k kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	answer := &podresources.ListPodResourcesResponse{}
	for _, row := range k.rows {
		words := strings.SplitN(row, "=", 3)
		names := strings.Split(words[2], "/")
		device := &podresources.ContainerDevices{ResourceName: words[0], DeviceIds: []string{words[1]}}
		container := &podresources.ContainerResources{Name: names[2], Devices: []*podresources.ContainerDevices{device}}
		answer.PodResources = append(answer.PodResources, &podresources.PodResources{
			Namespace: names[0], Name: names[1], Containers: []*podresources.ContainerResources{container},
		})
	}
	return answer, nil
}

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, kubelet{rows: os.Args[2:]})
	log.Fatal(server.Serve(listener))
}
