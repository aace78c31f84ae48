"""An exception of a subject in Python becomes the error of the call. No exception crosses the boundary."""

import contextlib
import ctypes
import io
import json
import sys
import unittest
from typing import Any

from shardproof import abi
from shardproof.engine_context import HarnessError, EngineContext, Span
from shardproof.subject import GradientHook, ParameterView, PlannedFailure, Subject, Table, Trainer, View


class Peer:
    """The harness's side, which records all reports."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.warned: list[tuple[int | None, str]] = []  # each with its reply
        self.members = (ctypes.c_int * 2)(0, 1)
        # ctypes cannot make a callback that returns a typed pointer.
        self._members = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda group: ctypes.addressof(self.members))
        types = dict(abi.Harness._fields_)
        self.struct = abi.Harness(
            abi_version=abi.ABI_VERSION,
            size=ctypes.sizeof(abi.Harness),
            fail=types["fail"](lambda reply, text: self.failed.append(text.decode())),
            warn=types["warn"](lambda reply, text: self.warned.append((reply, text.decode()))),
            bytes=types["bytes"](lambda buffer: 4 * buffer),
            group_rank=types["group_rank"](lambda group: 1),
            group_size=types["group_size"](lambda group: 2),
            group_members=ctypes.cast(self._members, types["group_members"]),
        )
        self.engine_context = abi.EngineContext(ctypes.pointer(self.struct), 1, 1, 1)


class RaisingText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this exception has no text")


class Engine(Trainer):
    def __init__(self) -> None:
        self.closed = False
        self.memory = (ctypes.c_float * 4)(1, 2, 3, 4)

    def perform(self, action: dict[str, Any], batch: View | None, targets: View | None) -> None:
        if "fails_in" in action:
            raise PlannedFailure(f'module "{action["fails_in"]}"')
        if action["call"] == "forward":
            assert batch is not None and batch.shape == (2, 2) and batch.dtype == "f32" and targets is None
            self.warn("looked at it")
        elif action["call"] == "interrupt":
            raise KeyboardInterrupt
        elif action["call"] == "lone_surrogate":
            self.warn("found \udc80")
            raise ValueError("what is \udc80?")
        elif action["call"] == "raising_text":
            raise RaisingText
        elif action["call"] == "ended":
            raise ValueError("up to here\0and on")
        else:
            raise ValueError(f"no such thing as {action['call']}")

    def loss(self) -> View:
        return View(ctypes.addressof(self.memory), (1,), "f32", 7)

    def parameters(self) -> list[ParameterView]:
        shard = View(ctypes.addressof(self.memory), (2, 2), "f32", 9)
        return [ParameterView("a.weight", (4, 2), 0, 2, shard, None, shard), ParameterView("meta", (3,), 0, 0, None)]

    def close(self) -> None:
        self.closed = True


class EngineSubject(Subject):
    name = "engine"
    version = "1"
    claims = {"fully_shard": ("timeline", "serial"), "other": ()}

    def __init__(self) -> None:
        self.made: list[Engine] = []

    def create(self, model: dict[str, Any], plan: dict[str, Any], engine_context: Any) -> Trainer:
        if plan.get("engine") == "other":
            raise NotImplementedError("only one engine here")
        engine_context.warn("made anew")
        self.made.append(Engine())
        return self.made[-1]


class BoundaryTest(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = Peer()
        self.subject = EngineSubject()
        self.table = Table(self.subject)
        self.c = self.table.struct

    def create(self, plan: bytes = b"{}", reply: int | None = None) -> tuple[int, Any]:
        out = ctypes.c_void_p()
        status = self.c.create(None, b"{}", plan, ctypes.byref(self.peer.engine_context), ctypes.byref(out), reply)
        return status, out.value

    def perform(self, trainer: Any, action: bytes, batch: abi.Tensor | None = None, reply: int | None = None) -> int:
        nothing = abi.Tensor()
        return self.c.perform(trainer, action, ctypes.byref(batch or nothing), ctypes.byref(nothing), reply)

    def test_the_table_describes_the_subject(self) -> None:
        self.assertEqual((self.c.name, self.c.version, self.c.abi_version), (b"engine", b"1", abi.ABI_VERSION))
        self.assertEqual(self.c.claim_count, 2)
        self.assertEqual([self.c.claims[i].engine for i in range(2)], [b"fully_shard", b"other"])
        self.assertEqual([self.c.claims[0].features[i] for i in range(3)], [b"timeline", b"serial", None])
        self.assertIsNone(self.c.claims[1].features[0])
        self.assertEqual(self.c.size, ctypes.sizeof(abi.SubjectTable))

    def test_names_versions_and_claims_must_be_texts(self) -> None:
        for what, value, error, message in (
            ("name", 5, TypeError, "EngineSubject.name: 5 is not a str"),
            ("name", "my\0engine", ValueError, "EngineSubject.name: 'my\\x00engine' has a NUL; remove it"),
            (
                "version",
                "1\udc80",
                ValueError,
                "EngineSubject.version: '1\\udc80' is not valid text: it has a lone surrogate",
            ),
            (
                "claims",
                {"other": ("timeline", b"serial")},
                TypeError,
                "EngineSubject.claims['other']: b'serial' is not a str",
            ),
            (
                "claims",
                {"other": "timeline"},
                TypeError,
                "EngineSubject.claims['other']: 'timeline' is a text, not a sequence of features; write ('timeline',)",
            ),
            ("claims", {"other": None}, TypeError, "EngineSubject.claims['other']: None is not a sequence of features"),
            ("claims", {5: ()}, TypeError, "EngineSubject.claims: 5 is not a str"),
            (
                "claims",
                ("timeline",),
                TypeError,
                "EngineSubject.claims: ('timeline',) is not a mapping of engine kinds to their features",
            ),
        ):
            with self.subTest(message):
                subject = EngineSubject()
                setattr(subject, what, value)
                with self.assertRaises(error) as raised:
                    Table(subject)
                self.assertEqual(str(raised.exception), message)

    def test_the_error_for_missing_claims_shows_what_to_write(self) -> None:
        class MyEngine(Subject):
            name = "mine"
            version = "1"

            def create(self, model: dict[str, Any], plan: dict[str, Any], engine_context: Any) -> Trainer:
                raise NotImplementedError

        with self.assertRaises(TypeError) as raised:
            Table(MyEngine())
        self.assertRegex(str(raised.exception), r'^MyEngine has no claims; write claims = \{"fully_shard": \(\)\}, ')

    def test_a_trainer_that_cannot_be_made(self) -> None:
        self.assertEqual(self.create(b'{"engine": "other"}')[0], abi.UNSUPPORTED)
        (text,) = self.peer.failed
        self.assertTrue(text.startswith("NotImplementedError: only one engine here\nTraceback"), text)

    def test_calls_and_errors(self) -> None:
        status, trainer = self.create()
        self.assertEqual(status, 0)
        values, shape = (ctypes.c_float * 4)(), (ctypes.c_int64 * 2)(2, 2)
        view = abi.DLTensor(data=ctypes.addressof(values), ndim=2, dtype=abi.DLDataType(2, 32, 1), shape=shape)
        self.assertEqual(self.perform(trainer, b'"forward"', abi.Tensor(view, 3)), 0)
        self.assertEqual(self.peer.failed, [])
        self.assertEqual(self.perform(trainer, b'{"call": "fly"}'), 1)
        self.assertTrue(self.peer.failed[-1].startswith("ValueError: no such thing as fly\nTraceback"))
        self.assertIn("boundary_test.py", self.peer.failed[-1])
        self.assertEqual(self.perform(trainer, b'{"call": "forward", "fails_in": "0"}'), abi.PLANNED_FAILURE)
        self.assertTrue(self.peer.failed[-1].startswith('PlannedFailure: module "0"\nTraceback'), self.peer.failed[-1])
        self.assertEqual(self.perform(trainer, b'"interrupt"'), abi.FAILED)
        self.assertTrue(self.peer.failed[-1].startswith("KeyboardInterrupt"))
        self.assertEqual(self.perform(trainer, b"no JSON"), 1)
        self.assertTrue(self.peer.failed[-1].startswith("JSONDecodeError"))
        self.assertEqual(self.c.extend(trainer, b"", b"plain", ctypes.byref(abi.Extension()), None), abi.UNSUPPORTED)
        self.assertIn("knows no all-gather extensions", self.peer.failed[-1])
        self.assertEqual(
            self.c.register_gradient_hook(trainer, b"reduction", b"", 0, ctypes.byref(abi.GradientHook()), None),
            abi.UNSUPPORTED,
        )
        self.assertIn("has no gradient hooks", self.peer.failed[-1])

    def test_a_gradient_hook_is_registered_and_called(self) -> None:
        _, trainer = self.create()
        registered: list[tuple[str, str, bool, GradientHook]] = []
        engine = self.subject.made[0]
        engine.register_gradient_hook = lambda *arguments: registered.append(arguments)
        calls: list[tuple[int, int, bytes, View | None, View | None, int]] = []

        def call(context: int, state: int, label: bytes, gradient: Any, output: Any, stream: int) -> int:
            calls.append((context, state, label, View.of(gradient[0]), View.of(output[0]), stream))
            return abi.OK if label == b"0" else abi.FAILED

        types = dict(abi.GradientHook._fields_)
        reason = ctypes.create_string_buffer("café".encode())
        # ctypes cannot make a callback that returns a typed pointer.
        error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
            lambda context: ctypes.addressof(reason) if context == 3 else None
        )
        hook = abi.GradientHook(3, 5, types["call"](call), ctypes.cast(error, types["error"]))
        self.assertEqual(
            self.c.register_gradient_hook(trainer, b"after_reduction", b"head", 1, ctypes.byref(hook), None), 0
        )
        ((point, module, direct, given),) = registered
        self.assertEqual((point, module, direct), ("after_reduction", "head", True))
        self.assertIs(direct, True)
        self.assertEqual((given.state, given.is_callable), (5, True))

        gradient = View(ctypes.addressof(engine.memory), (4,), "f32", 7)
        output = View(gradient.address, (2,), "f32", 8)
        given("0", gradient, output, 2)
        given("0", gradient, None, 0)
        self.assertEqual(calls, [(3, 5, b"0", gradient, output, 2), (3, 5, b"0", gradient, None, 0)])
        given("0", gradient, None, 0, state=0)
        self.assertEqual(calls[-1], (3, 0, b"0", gradient, None, 0))
        with self.assertRaises(HarnessError) as raised:
            given("1", gradient, None, 0)
        self.assertEqual(str(raised.exception), "café")
        hook.context = 4
        with self.assertRaisesRegex(HarnessError, "^the hook gave no reason$"):
            given("1", gradient, None, 0)

    def test_a_gradient_hook_that_is_not_callable(self) -> None:
        hook = GradientHook(abi.GradientHook(state=2))
        self.assertFalse(hook.is_callable)
        with self.assertRaisesRegex(TypeError, "^this gradient hook is not callable$"):
            hook("0", View(8, (1,), "f32", 1), None, 0)

    def test_a_registration_that_is_refused(self) -> None:
        _, trainer = self.create()

        def refuse(point: str, module: str, direct: bool, hook: GradientHook) -> None:
            raise ValueError(f'"{module}" is no root')

        self.subject.made[0].register_gradient_hook = refuse
        self.assertEqual(
            self.c.register_gradient_hook(trainer, b"reduction", b"0", 0, ctypes.byref(abi.GradientHook()), None),
            abi.FAILED,
        )
        self.assertTrue(self.peer.failed[-1].startswith('ValueError: "0" is no root\nTraceback'), self.peer.failed[-1])

    def test_a_compiled_plan_crosses_as_json(self) -> None:
        _, trainer = self.create()
        engine = self.subject.made[0]
        text = ctypes.c_char_p()
        ask = lambda: self.c.compiled_plan(trainer, ctypes.byref(text), None)
        self.assertEqual(ask(), abi.UNSUPPORTED)
        self.assertIn("this engine compiles nothing", self.peer.failed[-1])
        plan = [{"pass": "backward", "values": [], "nodes": [{"label": "café"}]}]
        engine.compiled_plan = lambda: plan
        self.assertEqual(ask(), abi.OK)
        self.assertEqual(json.loads(text.value), plan)
        engine.compiled_plan = lambda: []
        self.assertEqual((ask(), text.value), (abi.OK, b"[]"))
        for answer, message in (
            ({"pass": "backward"}, "TypeError: compiled_plan: expected a list, got a dict"),
            ([{"divisor": float("inf")}], "ValueError: Out of range float values are not JSON compliant"),
        ):
            engine.compiled_plan = lambda answer=answer: answer
            self.assertEqual(ask(), abi.FAILED)
            self.assertTrue(self.peer.failed[-1].startswith(message), self.peer.failed[-1])

    def test_text_with_lone_surrogates(self) -> None:
        """Python reads such text from a path or from bytes that are not UTF-8."""
        _, trainer = self.create()
        self.assertEqual(self.perform(trainer, b'"lone_surrogate"', reply=5), 1)
        self.assertEqual(self.peer.warned[-1], (5, "found \\udc80"))
        self.assertTrue(
            self.peer.failed[-1].startswith("ValueError: what is \\udc80?\nTraceback"), self.peer.failed[-1]
        )

    def test_an_error_whose_text_raises(self) -> None:
        _, trainer = self.create()
        self.assertEqual(self.perform(trainer, b'"raising_text"'), 1)
        self.assertEqual(self.peer.failed[-1], "RaisingText (its text raises an exception)")
        self.assertEqual(self.perform(trainer, b'"ended"'), 1)
        self.assertTrue(
            self.peer.failed[-1].startswith("ValueError: up to here\\x00and on\nTraceback"), self.peer.failed[-1]
        )

    def test_warnings_go_to_the_current_call(self) -> None:
        _, trainer = self.create(reply=3)
        self.assertEqual(self.peer.warned, [(3, "made anew")])
        values, shape = (ctypes.c_float * 4)(), (ctypes.c_int64 * 2)(2, 2)
        view = abi.DLTensor(data=ctypes.addressof(values), ndim=2, dtype=abi.DLDataType(2, 32, 1), shape=shape)
        self.assertEqual(self.perform(trainer, b'"forward"', abi.Tensor(view, 3), reply=4), 0)
        self.assertEqual(self.peer.warned[1:], [(4, "looked at it")])
        with contextlib.redirect_stderr(io.StringIO()) as printed:  # the call has ended
            self.subject.made[0].warn("outside of a call")
        self.assertEqual(len(self.peer.warned), 2)
        self.assertEqual(printed.getvalue(), "warning: outside of a call\n")

    def test_a_warning_of_a_trainer_that_is_being_made(self) -> None:
        class Hasty(Engine):
            def __init__(self) -> None:
                super().__init__()
                self.warn("made in haste")

        self.subject.create = lambda model, plan, engine_context: Hasty()
        self.assertEqual(self.create(reply=5)[0], 0, self.peer.failed)
        self.assertEqual(self.peer.warned, [(5, "made in haste")])
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            Hasty()
        self.assertEqual(printed.getvalue(), "warning: made in haste\n")
        self.assertEqual(len(self.peer.warned), 1)

    def test_calls_after_a_trainer_was_closed_reach_no_harness(self) -> None:
        engine_contexts: list[EngineContext] = []

        def create(model: dict[str, Any], plan: dict[str, Any], engine_context: EngineContext) -> Trainer:
            engine_contexts.append(engine_context)
            return Engine()

        self.subject.create = create
        _, trainer = self.create()
        (engine_context,) = engine_contexts
        self.assertEqual(engine_context.device.size(9), 36)
        engine = self.table._trainers[trainer].trainer
        engine.close = lambda: self.assertEqual(engine_context.device.size(9), 36)
        hooks: list[GradientHook] = []
        engine.register_gradient_hook = lambda point, module, direct, hook: hooks.append(hook)
        called: list[int] = []
        call = dict(abi.GradientHook._fields_)["call"](lambda *arguments: called.append(1) or abi.OK)
        self.assertEqual(
            self.c.register_gradient_hook(
                trainer, b"reduction", b"", 0, ctypes.byref(abi.GradientHook(call=call)), None
            ),
            0,
        )
        self.assertEqual(self.c.destroy(trainer, None), 0, self.peer.failed)
        after = "was called after the trainer was closed, when its device is gone: release all memory in `close`$"
        for name, late in (
            ("release", lambda: engine_context.device.release(0, 9)),
            ("bytes", lambda: engine_context.device.size(9)),
            ("submit", lambda: engine_context.device.submit(0, "forward", "0", [], [])),
            ("run", lambda: engine_context.world.run(0, "all_gather", None, None, "0")),
            ("warn", lambda: engine_context.harness.warn(None, b"late")),
        ):
            with self.subTest(name), self.assertRaisesRegex(HarnessError, f"^{name} {after}"):
                late()
        with self.assertRaisesRegex(HarnessError, "^a gradient hook was called after the trainer was closed$"):
            hooks[0]("0", View(8, (1,), "f32", 1), None, 0)
        self.assertEqual(called, [])
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            engine_context.warn("too late")
        self.assertEqual(printed.getvalue(), "warning: too late\n")

    def test_results_stay_in_the_trainers_memory(self) -> None:
        _, trainer = self.create()
        loss = abi.Tensor()
        self.assertEqual(self.c.loss(trainer, ctypes.byref(loss), None), 0)
        self.assertEqual(View.of(loss), View(ctypes.addressof(self.subject.made[0].memory), (1,), "f32", 7))
        parameters, count = ctypes.POINTER(abi.Parameter)(), ctypes.c_size_t()
        self.assertEqual(self.c.parameters(trainer, ctypes.byref(parameters), ctypes.byref(count), None), 0)
        self.assertEqual(count.value, 2)
        first, second = parameters[0], parameters[1]
        self.assertEqual((first.name, first.ndim, first.shape[0], first.dim, first.start), (b"a.weight", 2, 4, 0, 2))
        self.assertEqual(View.of(first.shard).shape, (2, 2))
        self.assertIsNone(View.of(first.second))
        self.assertEqual(View.of(first.gradient).buffer, 9)
        self.assertIsNone(View.of(second.shard))

    def test_a_result_of_a_wrong_type_is_an_error(self) -> None:
        self.subject.create = lambda model, plan, engine_context: None
        self.assertEqual(self.create()[0], 1)
        self.assertTrue(
            self.peer.failed[-1].startswith(
                "TypeError: create: expected a Trainer, got None\nTraceback"
            )
        )
        del self.subject.create
        _, trainer = self.create()
        engine = self.subject.made[-1]
        engine.loss = lambda: 3.5
        self.assertEqual(self.c.loss(trainer, ctypes.byref(abi.Tensor()), None), 1)
        self.assertIn("loss: expected a View, got a float", self.peer.failed[-1])
        for answer, message in (
            ([None], "parameters()[0]: expected a ParameterView, got None"),
            (
                [ParameterView("a", (1,), 0, 0, 7)],
                'parameter "a", shard: expected a View, got a int',
            ),
            (
                [ParameterView("a", (1,), 0, 0, View(8, (1,), "float32"))],
                "'float32' is not a dtype; expected one of f64, f32, f16, bf16, i64",
            ),
        ):
            engine.parameters = lambda answer=answer: answer
            parameters, count = ctypes.POINTER(abi.Parameter)(), ctypes.c_size_t()
            self.assertEqual(self.c.parameters(trainer, ctypes.byref(parameters), ctypes.byref(count), None), 1)
            self.assertIn(message, self.peer.failed[-1])

    def test_names_that_the_header_does_not_have(self) -> None:
        device = EngineContext(self.peer.engine_context).device
        with self.assertRaisesRegex(TypeError, "'float32' is not a dtype; expected one of f64, f32, "):
            device.submit(0, "forward", "0", [Span(1, 0, 1, "float32")], [])
        with self.assertRaisesRegex(TypeError, "'fwd' is not a kind of work; expected one of forward, backward, "):
            device.submit(0, "fwd", "0", [], [])
        with self.assertRaisesRegex(TypeError, "'main' is not a role of a stream; expected one of compute, "):
            device.create_stream("main", "main")

    def test_a_dtype_that_nobody_knows(self) -> None:
        view = abi.DLTensor(dtype=abi.DLDataType(2, 8, 1))
        with self.assertRaisesRegex(TypeError, "code 2 and 8 bits"):
            View.of(abi.Tensor(view))

    def test_a_trainer_is_closed_once_and_forgotten(self) -> None:
        _, trainer = self.create()
        self.assertEqual(self.c.destroy(trainer, None), 0)
        self.assertTrue(self.subject.made[0].closed)
        self.assertEqual(self.perform(trainer, b'"forward"'), 1)
        self.assertTrue(self.peer.failed[-1].startswith("KeyError"))

    def test_an_error_while_a_trainer_is_closed(self) -> None:
        _, trainer = self.create()
        engine = self.subject.made[0]

        def close() -> None:
            engine.warn("one stream is still busy")
            sys.exit("enough")

        engine.close = close
        self.assertEqual(self.c.destroy(trainer, 6), 1)
        self.assertEqual(self.peer.warned[-1], (6, "one stream is still busy"))
        self.assertTrue(self.peer.failed[-1].startswith("SystemExit: enough\nTraceback"), self.peer.failed[-1])
        self.assertEqual(self.c.destroy(trainer, 7), 1)
        self.assertTrue(self.peer.failed[-1].startswith("KeyError"))


if __name__ == "__main__":
    unittest.main()
