//go:build tools

// Package tools names the programs that this module builds, so that 'go mod tidy' keeps what they need.
package tools

import (
	_ "github.com/prometheus-operator/prometheus-operator/cmd/operator"
)
