"""The facts of data/ as typed tables; each row there names its source and date."""
