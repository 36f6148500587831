"""Makes the training data: rows of random numbers, and for each their sum with known weights."""

import json

import numpy as np
from shared import DATA, MODEL

ROWS, COLUMNS = 4096, 16

random = np.random.default_rng(0)
weights = np.arange(1, COLUMNS + 1) / 10
x = random.normal(size=(ROWS, COLUMNS))
y = x @ weights + 0.01 * random.normal(size=ROWS)

# A model of an earlier run must not be taken for that of this one.
MODEL.unlink(missing_ok=True)
unfinished = DATA.with_name("new.npz")
np.savez(unfinished, x=x.astype("float32"), y=y.astype("float32"))
unfinished.replace(DATA)

sample = [1.0] * COLUMNS
print(json.dumps({"rows": ROWS, "columns": COLUMNS, "sample": sample, "expected": float(weights.sum())}))
