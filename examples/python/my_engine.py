#!/usr/bin/env python3
"""A minimal fully sharded engine in plain Python: linear layers and ReLUs, SGD and Adam, one collective for each
parameter.

It computes first, and then reports to the device what it computed and which memory it used. All work is on one stream,
so no work has to wait for other work.
"""

import ctypes
import json
import math
import sys
from itertools import chain

from shardproof.engine_context import EngineContext, Span
from shardproof.subject import ParameterView, Subject, Trainer, View
from shardproof.worker import run

COMPUTE = 0


class Floats:
    """Memory of the device, as a sequence of numbers. It is released with its last reference."""

    def __init__(self, device, memory, label, count):
        self.device = device
        self.buffer = device.allocate(COMPUTE, 4 * count, memory, label)
        self.values = (ctypes.c_float * count).from_address(device.data(self.buffer))

    def __del__(self):
        self.device.release(COMPUTE, self.buffer)

    def span(self, count=None):
        return Span(self.buffer, 0, len(self.values) if count is None else count, "f32")

    def view(self, shape):
        return View(ctypes.addressof(self.values), shape, "f32", self.buffer)


class HarnessFloats:
    """Memory that the harness lends, as a sequence of numbers."""

    def __init__(self, device, view):
        count = math.prod(view.shape)
        self.values = (ctypes.c_float * count).from_address(view.address)
        self.whole = Span(view.buffer, view.address - device.data(view.buffer), count, "f32")

    def span(self):
        return self.whole


def by_formula(seed, index):
    """An integer from -4 to 4: every engine begins with these values."""
    u = (seed * 2654435761 + index * 40503 + 12345) % 2**32
    u ^= u >> 15
    u = u * 2246822519 % 2**32
    return (u ^ u >> 13) % 9 - 4


def pad(values, count):
    values = list(values)
    return values + [0] * (count - len(values))


def rows_of(values, width):
    return [values[i : i + width] for i in range(0, len(values), width)]


def product(a, b):
    columns = list(zip(*b))
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def join(path, name):
    return f"{path}.{name}" if path else name


def holds(group, path):
    (module,) = group["modules"]
    return module == "" or f"{path}.".startswith(f"{module}.")


def refuse(where, what):
    raise NotImplementedError(f"{where}: {json.dumps(what)} is not supported by this engine")


def expect_keys(document, where, known):
    """Refuses unknown keys: an engine that ignored them would train another model than the script describes."""
    for key in document.keys() - known:
        refuse(where, {key: document[key]})


class Optimizer:
    """Updates a shard in one step. The caller passes the shard's state, which the step changes: the number of steps,
    and for Adam the two moments of each element."""

    def __init__(self, plan):
        self.kind, self.rate, self.decay = plan["kind"], plan.get("rate", 0.5), plan.get("weight_decay", 0)
        self.beta1, self.beta2, self.epsilon = (
            plan.get("beta1", 0.9),
            plan.get("beta2", 0.999),
            plan.get("epsilon", 1e-8),
        )
        self.moments = 0 if self.kind == "sgd" else 2
        if self.kind not in ("sgd", "adam", "adamw"):
            refuse("plan.optimizer", plan)
        expect_keys(plan, "plan.optimizer", {"kind", "rate", "beta1", "beta2", "epsilon", "weight_decay"})

    def update(self, step, shard, gradient, moments):
        if self.kind == "sgd":
            shard[:] = [p - self.rate * g for p, g in zip(shard, gradient)]
            return
        first, second = moments
        scale1, scale2 = 1 - self.beta1**step, 1 - self.beta2**step
        for i, (p, g) in enumerate(zip(shard, gradient)):
            if self.kind == "adam":
                g += self.decay * p
            else:
                p -= self.rate * self.decay * p
            first[i] = self.beta1 * first[i] + (1 - self.beta1) * g
            second[i] = self.beta2 * second[i] + (1 - self.beta2) * g * g
            shard[i] = p - self.rate / scale1 * first[i] / (math.sqrt(second[i] / scale2) + self.epsilon)


class Parameter:
    """A parameter that is sharded by rows. All ranks have the same number of rows, but the last ranks may have fewer,
    or none. Zeros pad all shards to one length. So the shards of all ranks, one after the other, are the parameter and
    some zeros. A parameter without a group is whole on every rank."""

    def __init__(self, engine_context, name, group, shape, seed, divisor):
        self.device, self.world, self.name, self.group, self.shape = (
            engine_context.device,
            engine_context.world,
            name,
            group,
            shape,
        )
        self.ranks, rank = (1, 0) if group is None else (self.world.size, self.world.rank)
        self.width = shape[1] if len(shape) > 1 else 1
        rows = -(-shape[0] // self.ranks)
        self.start = min(rank * rows, shape[0])
        self.rows = min(rows, shape[0] - self.start)
        self.shard = Floats(self.device, "shard", name, rows * self.width)
        self.whole = self.gradient = None
        self.moments, self.steps = [], 0
        mine = range(self.start * self.width, (self.start + self.rows) * self.width)
        self.shard.values[:] = pad([by_formula(seed, i) / divisor for i in mine], rows * self.width)
        self.device.submit(COMPUTE, "fill", name, [], [self.shard.span()])

    def gather(self):
        if self.whole is None and self.ranks == 1:  # a collective of one rank is an error
            self.whole = self.shard
        elif self.whole is None:
            self.whole = Floats(self.device, "parameter", self.name, len(self.shard.values) * self.ranks)
            self.world.run(COMPUTE, "all_gather", self.shard.span(), self.whole.span(), self.group)
        return self.whole

    def reduce(self, gradient):
        """Takes this rank's whole gradient, and adds the rank's shard of the mean over all ranks to what it has."""
        mean = gradient
        if self.ranks > 1:
            mean = Floats(self.device, "sharded_gradient", self.name, len(self.shard.values))
            self.world.run(COMPUTE, "reduce_scatter", gradient.span(), mean.span(), self.group, op="avg")
        if self.gradient is None:
            self.gradient = mean
        else:
            self.gradient.values[:] = [old + new for old, new in zip(self.gradient.values, mean.values)]
            self.device.submit(
                COMPUTE, "reduce_copy_out", self.name, [mean.span(), self.gradient.span()], [self.gradient.span()]
            )

    def step(self, optimizer):
        self.whole = None  # a whole parameter is out of date now
        if self.gradient is None:
            return
        while len(self.moments) < optimizer.moments:
            self.moments.append(Floats(self.device, "optimizer_state", self.name, len(self.shard.values)))
            self.moments[-1].values[:] = [0] * len(self.shard.values)
            self.device.submit(COMPUTE, "fill", self.name, [], [self.moments[-1].span()])
        self.steps += 1
        optimizer.update(
            self.steps, self.shard.values, self.gradient.values, [moment.values for moment in self.moments]
        )
        changed = [floats.span() for floats in (self.shard, *self.moments)]
        self.device.submit(COMPUTE, "optimizer", self.name, [*changed, self.gradient.span()], changed)

    def view(self):
        shape = (self.rows, *self.shape[1:])
        gradient = self.gradient and self.gradient.view(shape)
        return ParameterView(self.name, self.shape, 0, self.start, self.shard.view(shape), gradient=gradient)


class Relu:
    """Forward computes y from x. Backward computes the slope of the loss by x from its slope by y."""

    def __init__(self, device, path):
        self.device, self.path = device, path

    def forward(self, x):
        self.x, y = x, Floats(self.device, "activation", self.path, len(x.values))
        y.values[:] = [max(value, 0) for value in x.values]
        self.device.submit(COMPUTE, "forward", self.path, [x.span()], [y.span()])
        return y

    def backward(self, slope):
        x, self.x = self.x, None
        below = Floats(self.device, "activation", self.path, len(x.values))
        below.values[:] = [s if value > 0 else 0 for value, s in zip(x.values, slope.values)]
        self.device.submit(COMPUTE, "backward", self.path, [x.span(), slope.span()], [below.span()])
        return below


class Linear:
    """The same for y = x Wᵀ + b. Its parameters are whole while it computes. They stay whole from forward to backward
    if the plan says so."""

    def __init__(self, device, path, weight, bias, reshards):
        self.device, self.path, self.weight, self.bias, self.reshards = device, path, weight, bias, reshards
        self.outputs, self.inputs = weight.shape
        self.parameters = [weight] if bias is None else [weight, bias]

    def forward(self, x):
        self.x = x
        for parameter in self.parameters:
            parameter.gather()
        rows = product(rows_of(x.values, self.inputs), zip(*self.weights()))
        if self.bias is not None:
            rows = [[value + b for value, b in zip(row, self.bias.whole.values)] for row in rows]
        y = self.made("activation", self.path, chain(*rows), len(rows) * self.outputs)
        reads = [x.span(), self.weight.whole.span(self.outputs * self.inputs)]
        if self.bias is not None:
            reads.append(self.bias.whole.span(self.outputs))
        self.device.submit(COMPUTE, "forward", self.path, reads, [y.span()])
        if self.reshards:
            self.reshard()
        return y

    def backward(self, slope):
        x, self.x = self.x, None
        self.weight.gather()
        slopes = rows_of(slope.values, self.outputs)
        by_output = list(zip(*slopes))
        below = self.made("activation", self.path, chain(*product(slopes, self.weights())), len(x.values))
        sums = [chain(*product(by_output, rows_of(x.values, self.inputs))), map(sum, by_output)]
        gradients = [
            self.made("gradient", parameter.name, values, len(parameter.shard.values) * parameter.ranks)
            for parameter, values in zip(self.parameters, sums)
        ]
        reads = [x.span(), slope.span(), self.weight.whole.span(self.outputs * self.inputs)]
        self.device.submit(COMPUTE, "backward", self.path, reads, [below.span(), *(g.span() for g in gradients)])
        self.reshard()
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.reduce(gradient)
        return below

    def weights(self):
        return rows_of(self.weight.whole.values, self.inputs)[: self.outputs]

    def made(self, memory, label, values, count):
        floats = Floats(self.device, memory, label, count)
        floats.values[:] = pad(values, count)
        return floats

    def reshard(self):
        for parameter in self.parameters:
            parameter.whole = None


class MyTrainer(Trainer):
    def __init__(self, model, plan, engine_context):
        expect_keys(model, "model", {"root", "loss", "init_divisor"})
        expect_keys(plan, "plan", {"mesh", "optimizer", "fully_shard"})
        section = plan["fully_shard"]
        expect_keys(section, "plan.fully_shard", {"wrap", "backward_prefetch"})
        self.groups, self.engine_context, self.divisor = section["wrap"], engine_context, model.get("init_divisor", 8)
        self.out = None  # the output of a forward that still waits for its backward
        self.optimizer, self.loss_is = Optimizer(plan.get("optimizer", {"kind": "sgd"})), model.get(
            "loss", {"kind": "sum"}
        )
        if self.loss_is["kind"] not in ("sum", "sum_of_squares", "dot"):
            refuse("model.loss", self.loss_is)
        expect_keys(self.loss_is, "model.loss", {"kind", "divisor", "seed"})
        self.check_mesh(plan.get("mesh", {}).get("shape", [engine_context.world.size]))
        self.check_groups(self.groups)
        self.layers, self.all, self.value = [], [], None
        self.read(model["root"], "")

    def check_mesh(self, shape):
        if len(shape) > 1:
            refuse("plan.mesh.shape", shape)
        if shape[0] != self.engine_context.world.size:
            raise ValueError(f"plan.mesh: {shape[0]} ranks, in a world of {self.engine_context.world.size}")

    @staticmethod
    def check_groups(groups):
        wrapped = set()
        for group in groups:
            expect_keys(group, "plan.fully_shard.wrap", {"modules", "reshard_after_forward"})
            module, *others = group["modules"]
            if others:
                refuse("plan.fully_shard.wrap", group)
            if module in wrapped:
                raise ValueError(f'plan.fully_shard.wrap: "{module}" is wrapped twice')
            wrapped.add(module)

    def read(self, module, path):
        match module["kind"]:
            case "sequential":
                expect_keys(module, path, {"name", "kind", "children"})
                for child in module["children"]:
                    self.read(child, join(path, child["name"]))
            case "relu":
                self.layers.append(Relu(self.engine_context.device, path))
            case "linear":
                if not module.get("contiguous", True):
                    refuse(join(path, "weight"), {"contiguous": False})
                expect_keys(module, path, {"name", "kind", "in_features", "out_features", "bias", "contiguous"})
                group, self.features = self.group_of(path), module["out_features"]
                weight = self.add(join(path, "weight"), group, (module["out_features"], module["in_features"]))
                bias = (
                    self.add(join(path, "bias"), group, (module["out_features"],)) if module.get("bias", True) else None
                )
                self.layers.append(Linear(self.engine_context.device, path, weight, bias, self.reshards(group)))
            case _:
                refuse(path, module)

    def group_of(self, path):
        """The innermost group around a module, or None: the plan has children before their parents."""
        return next((group for group in self.groups if holds(group, path)), None)

    def reshards(self, group):
        how = group.get("reshard_after_forward", "automatic") if group else False
        if how == "automatic":  # only if another group contains this one
            return any(other is not group and holds(other, group["modules"][0]) for other in self.groups)
        return how if isinstance(how, bool) else refuse("plan.fully_shard.wrap", group)

    def add(self, name, group, shape):
        tag = group and group["modules"][0]
        self.all.append(Parameter(self.engine_context, name, tag, shape, len(self.all) + 1, self.divisor))
        return self.all[-1]

    def perform(self, action, batch, targets):
        match action:
            case {"call": "forward" | "evaluate"} if self.out is not None:
                refuse("script", "a second forward before the backward")
            case {"call": "forward", **others} if not others:
                self.forward(batch)
            case {"call": "evaluate", **others} if not others:
                self.forward(batch)
                self.out = None  # no backward follows
            case {"call": "backward"}:
                self.backward()
            case {"call": "step"}:
                for parameter in self.all:
                    parameter.step(self.optimizer)
            case {"call": "zero_grad", **others} if not others:
                for parameter in self.all:
                    parameter.gradient = None
            case _:
                refuse("script", action)

    def forward(self, batch):
        x = HarnessFloats(self.engine_context.device, batch)  # until the first forward after its backward
        for layer in self.layers:
            x = layer.forward(x)
        self.out = x
        self.value = Floats(self.engine_context.device, "activation", "loss", 1)
        self.value.values[0] = 0
        for i, y in enumerate(x.values):
            self.value.values[0] += y * self.factor(i)  # in single precision, like every value that is kept
        self.engine_context.device.submit(COMPUTE, "loss", "loss", [x.span()], [self.value.span()])

    def backward(self):
        slope = Floats(self.engine_context.device, "activation", "loss slope", len(self.out.values))
        twice = 2 if self.loss_is["kind"] == "sum_of_squares" else 1
        slope.values[:] = [twice * self.factor(i) for i in range(len(slope.values))]
        self.engine_context.device.submit(COMPUTE, "loss", "loss slope", [self.out.span()], [slope.span()])
        self.out = None
        for layer in reversed(self.layers):
            slope = layer.backward(slope)

    def factor(self, output):
        """The loss is a sum over all outputs, each times 1, times itself, or times an element of a row by formula."""
        match self.loss_is["kind"]:
            case "sum":
                return 1
            case "sum_of_squares":
                return self.out.values[output] / self.loss_is.get("divisor", 1)
            case "dot":
                return by_formula(self.loss_is.get("seed", 7), output % self.features) / self.loss_is.get("divisor", 1)

    def loss(self):
        return self.value.view(())

    def parameters(self):
        return [parameter.view() for parameter in self.all]


class MyEngine(Subject):
    name = "python_engine"
    version = "1"
    claims = {"fully_shard": ()}

    def create(self, model, plan, engine_context: EngineContext):
        return MyTrainer(model, plan, engine_context)


if __name__ == "__main__":
    sys.exit(run(MyEngine(), sys.argv))
