"""Opens a trained run and asks its model, with ctypes and numpy alone.

    python3 use_a_run.py runs/demo [libpropagator.so.0]
"""
import ctypes
import sys

import numpy as np

TYPES = {np.dtype(np.float32): 1, np.dtype(np.float64): 2,
         np.dtype(np.int32): 3, np.dtype(np.int64): 4}


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("meaning", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int32), ("type", ctypes.c_int32),
                ("device", ctypes.c_int32), ("device_index", ctypes.c_int32)]


class Run:
    """A run as a function of named arrays, whatever their memory layout."""

    def __init__(self, folder, library="libpropagator.so.0"):
        self.c = ctypes.CDLL(library)
        self.c.pg_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.check(self.c.pg_open(folder.encode(), None,
                                  ctypes.byref(self.handle)))
        self.inputs = self.ports(self.c.pg_inputs)
        self.outputs = self.ports(self.c.pg_outputs)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.pg_last_error().decode())

    def ports(self, ask):
        """Shapes by name; -1 stands for any length."""
        ports, count = ctypes.POINTER(Port)(), ctypes.c_size_t()
        self.check(ask(self.handle, ctypes.byref(ports), ctypes.byref(count)))
        return {port.name.decode(): tuple(port.shape[:port.rank])
                for port in ports[:count.value]}

    def shape_of(self, output, inputs):
        shape, rank = (ctypes.c_int64 * 8)(), ctypes.c_int32()
        self.check(self.c.pg_output_shape(
            self.handle, tensors(inputs), ctypes.c_size_t(len(inputs)),
            output.encode(), shape, ctypes.byref(rank)))
        return tuple(shape[:rank.value])

    def apply_into(self, inputs, outputs):
        self.check(self.c.pg_apply(
            self.handle, tensors(inputs), ctypes.c_size_t(len(inputs)),
            tensors(outputs), ctypes.c_size_t(len(outputs))))

    def __call__(self, **inputs):
        outputs = {name: np.empty(self.shape_of(name, inputs))
                   for name in self.outputs}
        self.apply_into(inputs, outputs)
        return outputs

    def close(self):
        self.check(self.c.pg_close(self.handle))


def tensors(arrays):
    """An array of pg_tensor, which lie where numpy has them."""
    return (Tensor * len(arrays))(*[
        Tensor(name.encode(), array.ctypes.data,
               (ctypes.c_int64 * array.ndim)(*array.shape),
               (ctypes.c_int64 * array.ndim)(
                   *[step // array.itemsize for step in array.strides]),
               array.ndim, TYPES[array.dtype])
        for name, array in arrays.items()])


def main():
    run = Run(*sys.argv[1:])
    rng = np.random.default_rng(1)
    inputs = {}
    for name, shape in run.inputs.items():
        inputs[name] = rng.uniform(0.1, 0.9, [8 if n < 0 else n for n in shape])
        print("in  ", name, inputs[name].shape)
    answers = run(**inputs)
    for name, values in answers.items():
        print(f"out  {name} {values.shape}: mean {values.mean():.4g}")

    # The same numbers in Fortran's order are the same to the model, bit by bit,
    # and so are its answers.
    turned = {name: np.asfortranarray(array) for name, array in inputs.items()}
    places = {name: np.empty(array.shape, order="F")
              for name, array in answers.items()}
    run.apply_into(turned, places)
    for name, values in answers.items():
        assert np.array_equal(places[name], values), name

    try:
        run(**dict(list(inputs.items())[1:]))
        raise SystemExit("expected an error: an input is missing")
    except RuntimeError as error:
        print("as expected:", str(error).splitlines()[0])
    run.close()


if __name__ == "__main__":
    main()
