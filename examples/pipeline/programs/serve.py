"""Answers with the model's predictions on the GPU: POST /predict, and health and metrics for the cluster."""

from __future__ import annotations

import torch
import uvicorn
from fastapi import Body, FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, Counter, generate_latest
from shared import MODEL, take_gpu, wait_for

app = FastAPI()
predicted = Counter("pipeline_predictions", "Rows that were predicted.")
device, uuid, simulated = take_gpu()
saved = torch.load(wait_for(MODEL), weights_only=True)
model = torch.nn.Linear(saved["columns"], 1)
model.load_state_dict(saved["weights"])
model.to(device).eval()


@app.get("/v2/health/ready")
def ready() -> dict[str, bool]:
    """The model is loaded before anything is answered."""
    return {"ready": True}


@app.get("/metrics")
def metrics() -> Response:
    """For Prometheus."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


@app.post("/predict")
def predict(inputs: list[list[float]] = Body(embed=True)) -> dict[str, object]:  # noqa: B008 - FastAPI's way
    """One number for each row."""
    if any(len(row) != saved["columns"] for row in inputs):
        raise HTTPException(422, f"Each row needs {saved['columns']} numbers.")
    with torch.no_grad():
        outputs = model(torch.tensor(inputs, device=device)).squeeze(1).tolist()
    predicted.inc(len(inputs))
    return {"outputs": outputs, "gpu": uuid, "trained_on": saved["trained_on"], "simulated": simulated}


if __name__ == "__main__":
    uvicorn.run(app, host="", port=8080, log_level="warning")
