"""Trains a linear model on the GPU for some seconds, and keeps it."""

import json
import os
import sys
import time

import numpy as np
import torch
from shared import DATA, MODEL, take_gpu, wait_for

device, uuid, simulated = take_gpu()
data = np.load(wait_for(DATA))
x, y = (torch.from_numpy(data[name]).to(device) for name in ("x", "y"))
model = torch.nn.Linear(x.shape[1], 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

losses, steps = [], 0
begin = time.monotonic()
while time.monotonic() < begin + float(os.environ.get("SECONDS", "60")):
    loss = torch.nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses = [*losses[:1], loss.item()]
    steps += 1
if loss.device.type != device:
    sys.exit(f"The loss was computed on '{loss.device}', not on '{device}'.")

unfinished = MODEL.with_name("new.pt")
weights = {name: value.cpu() for name, value in model.state_dict().items()}
torch.save({"weights": weights, "columns": x.shape[1], "trained_on": uuid}, unfinished)
unfinished.replace(MODEL)
spent = round(time.monotonic() - begin, 1)
told = {"gpu": uuid, "steps": steps, "seconds": spent, "loss_first": losses[0], "loss_last": losses[-1]}
print(json.dumps({**told, "simulated": simulated}))
