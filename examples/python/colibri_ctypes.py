#!/usr/bin/env python3
"""A model in a Python program through ctypes: nothing to install but libcolibri.so.

    python3 colibri_ctypes.py MODEL [LIBRARY]

LIBRARY is libcolibri.so.0 where the loader finds it, or its path.
"""
import ctypes as c
import sys
import threading

LOG_FN = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)


class Sized(c.Structure):
    """A struct of colibri.h: all zero but its size, which comes first."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.struct_size = c.sizeof(self)


class Error(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("code", c.c_int64), ("text", c.c_char * 1008)]


class Options(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("model", c.c_char_p), ("ranks", c.c_int64),
                ("threads", c.c_int64), ("device", c.c_char_p), ("weights", c.c_char_p),
                ("dense_weights", c.c_char_p), ("kv_dtype", c.c_char_p),
                ("placement", c.c_char_p), ("max_context", c.c_int64), ("max_batch", c.c_int64),
                ("chunk", c.c_int64), ("step_timeout_s", c.c_int64), ("pin_threads", c.c_int64),
                ("log_level", c.c_int64), ("log", LOG_FN), ("log_user", c.c_void_p)]


class Request(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("prompt", c.c_char_p), ("prompt_bytes", c.c_size_t),
                ("prompt_ids", c.POINTER(c.c_int32)), ("num_prompt_ids", c.c_size_t),
                ("messages", c.c_char_p), ("tools", c.c_char_p), ("max_tokens", c.c_int64),
                ("temperature", c.c_double), ("top_p", c.c_double), ("top_k", c.c_int64),
                ("min_p", c.c_double), ("seed", c.c_uint64), ("stop", c.POINTER(c.c_char_p)),
                ("num_stop", c.c_size_t), ("stop_ids", c.POINTER(c.c_int32)),
                ("num_stop_ids", c.c_size_t), ("ignore_eos", c.c_int64), ("id", c.c_int64),
                ("timeout_ms", c.c_int64)]


class Result(Sized):
    _fields_ = [("struct_size", c.c_size_t), ("memory", c.c_void_p), ("text", c.c_void_p),
                ("text_bytes", c.c_size_t), ("ids", c.POINTER(c.c_int32)), ("num_ids", c.c_size_t),
                ("finish", c.c_int64), ("num_prompt_ids", c.c_int64),
                ("first_token_ms", c.c_double), ("total_ms", c.c_double)]


class Piece(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("text", c.c_void_p), ("text_bytes", c.c_size_t),
                ("ids", c.POINTER(c.c_int32)), ("num_ids", c.c_size_t)]


PIECE_FN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Piece))
CANCELLED = 7


class ColibriError(Exception):
    pass


class Model:
    """Usable from several threads; ctypes lets others run while a call waits."""

    def __init__(self, model, library="libcolibri.so.0", **options):
        self._engine = c.c_void_p()
        self._lib = c.CDLL(library)
        self._lib.colibri_version.restype = c.c_char_p
        self._lib.colibri_init.argtypes = [c.POINTER(Options), c.POINTER(c.c_void_p),
                                           c.POINTER(Error)]
        self._lib.colibri_stream.argtypes = [c.c_void_p, c.POINTER(Request), PIECE_FN, c.c_void_p,
                                             c.POINTER(Result), c.POINTER(Error)]
        self._lib.colibri_cancel.argtypes = [c.c_void_p, c.c_int64]
        self._lib.colibri_free.argtypes = [c.c_void_p]
        error = Error()
        made = Options(model=model.encode(), **options)
        if self._lib.colibri_init(made, c.byref(self._engine), error) != 0:
            raise ColibriError(error.text.decode(errors="replace"))

    def version(self):
        return self._lib.colibri_version().decode()

    def stream(self, prompt, on_text, **fields):
        """Calls on_text(text) as text comes; it returns True to cancel. Returns (text, ids)."""
        raised = []

        def take(_user, piece):
            try:
                text = c.string_at(piece.contents.text, piece.contents.text_bytes).decode()
                return 1 if on_text(text) else 0
            except BaseException as exception:  # it may not leave a C callback
                raised.append(exception)
                return 1

        result, error = Result(), Error()
        request = Request(prompt=prompt.encode(), **fields)
        callback = PIECE_FN(take)  # held here until the call is over
        code = self._lib.colibri_stream(self._engine, request, callback, None, result, error)
        try:
            if raised:
                raise raised[0]
            if code not in (0, CANCELLED):
                raise ColibriError(error.text.decode(errors="replace"))
            text = c.string_at(result.text, result.text_bytes).decode() if result.text else ""
            return text, result.ids[:result.num_ids]
        finally:
            self._lib.colibri_result_free(c.byref(result))

    def cancel(self, id):
        return self._lib.colibri_cancel(self._engine, id) == 0

    def close(self):
        engine, self._engine = self._engine, c.c_void_p()
        self._lib.colibri_free(engine)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main(model, library="libcolibri.so.0"):
    with Model(model, library, ranks=2, max_context=1024) as colibri:
        print("colibri", colibri.version())

        def show(text):
            sys.stdout.write(text)
            sys.stdout.flush()

        _, ids = colibri.stream("ROMEO:", show, max_tokens=32)
        print("\n--", len(ids), "tokens")

        # The callback ends it as soon as a line is full.
        text, ids = colibri.stream("JULIET:", lambda piece: "\n" in piece, max_tokens=400)
        print("-- cancelled by the callback:", repr(text.split("\n")[0]))

        # So does another thread, by the request's id.
        begun = threading.Event()
        taken = []
        asker = threading.Thread(target=lambda: taken.append(
            colibri.stream("def ", lambda _text: begun.set(), max_tokens=900, ignore_eos=1, id=7)))
        asker.start()
        begun.wait()
        was_cancelled = colibri.cancel(7)
        asker.join()
        print("-- cancelled by its id:", was_cancelled and len(taken[0][1]) < 900)

        try:
            colibri.stream("", show)
        except ColibriError as error:
            print("-- an error:", error)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
