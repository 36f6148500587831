"""Where the recipes are: data beside the code, never built things."""

from __future__ import annotations

from pathlib import Path

LAB = Path(__file__).resolve().parents[2]
GO = LAB / "go"
IMAGES = LAB / "images"
PACKAGES = LAB / "packages"
