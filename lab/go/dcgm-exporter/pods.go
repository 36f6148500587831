package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type pod struct{ container, namespace, name string }

const migPrefix = "nvidia.com/mig-"

// holders asks the kubelet, at every scrape, which pod holds which GPU (UUID). A machine without kubelet has none.
func holders(socket string, resources []string) (map[string]pod, error) {
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(connection).List(limited, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	found := map[string]pod{}
	for _, each := range answer.GetPodResources() {
		for _, container := range each.GetContainers() {
			holder := pod{container.GetName(), each.GetNamespace(), each.GetName()}
			for _, device := range container.GetDevices() {
				name := device.GetResourceName()
				if !slices.Contains(resources, name) && !strings.HasPrefix(name, migPrefix) {
					continue
				}
				for _, id := range device.GetDeviceIds() {
					// A shared GPU has one ID for each share: 'UUID::3'.
					uuid, _, _ := strings.Cut(id, "::")
					found[uuid] = holder
				}
			}
		}
	}
	return found, nil
}
