"""Checks the code that nvcc generates for the kernels, as far as results and occupancy depend on it. Needs no GPU.

usage: check_generated_code.py COMPILE_COMMANDS SOURCE [NVCC OPTION…]

Compiles SOURCE for Hopper, with the options of the build and the given options. Reads the output of ptxas, the PTX and,
if the packages of cuobjdump and nvdisasm are installed, the machine code."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

# Registers of a thread. With 64, a multiprocessor takes four blocks of 256 threads. Element-wise kernels must use
# fewer.
MOST_REGISTERS = 64
FEWER_REGISTERS = dict.fromkeys(
    [
        "Copy",
        "Fill",
        "Scale",
        "Divide",
        "Accumulate",
        "CheckIndices",
        "Relu",
        "ReluBackward",
        "ScaleBy",
        "AddRow",
        "Embedding",
        "Sgd",
        "Clip",
    ],
    40,
) | {"spin_for": 16, "hold": 16}

# CUDA's own exp, log and pow consist of fused multiply-adds, and optimizers use them. No other kernel may have fused
# multiply-adds, because they round once where the host rounds twice.
FUSED = {
    "Sgd",
    "Adam",
    "CrossEntropy",
    "CrossEntropyBackward",
    "PowerSum",
    "PowerRoot",
    "Attention",
    "AttentionBackwardQuery",
    "AttentionBackwardKey",
    "AttentionBackwardValue",
}
# In machine code, divisions and square roots also consist of them, and are still rounded as IEEE 754 demands.
FUSED_IN_SASS = FUSED | {"Divide", "LayerNorm", "LayerNormBackwardIn", "LayerNormBackwardWeight", "Clip"}

WAITING = {"spin_for", "hold"}

PTX_FUNCTION = r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(\w+)\("
SASS_FUNCTION = r"Function : (\S+)"


def kernel_of(symbol):
    """The name of the body in a kernel's mangled name, or of a kernel without a body. None for CUDA's own functions."""
    body = re.search(r"6bodies(\d+)(\w+)", symbol)
    if body:
        return body[2][:int(body[1])]
    return next((name for name in WAITING if f"{len(name)}{name}" in symbol), None)


def sections(text, heading):
    """(kernel, its lines) for each part of a listing that begins with the pattern `heading`."""
    kernel, lines = None, []
    for line in text.splitlines():
        begins = re.search(heading, line)
        if begins:
            if kernel:
                yield kernel, lines
            kernel, lines = kernel_of(begins[1]), []
        lines.append(line)
    if kernel:
        yield kernel, lines


def objections_to_resources(ptxas):
    """Objections to the output of `ptxas -v`: spills, local memory, too many registers."""
    found = 0
    for kernel, lines in sections(ptxas, r"Compiling entry function '(\S+)'"):
        found += 1
        text = "\n".join(lines)
        for bytes_used, what in re.findall(r"(\d+) bytes (stack frame|spill stores|spill loads)", text):
            if int(bytes_used) > 0:
                yield f"{kernel}: {bytes_used} bytes {what}"
        registers = int(re.search(r"Used (\d+) registers", text)[1])
        limit = FEWER_REGISTERS.get(kernel, MOST_REGISTERS)
        if registers > limit:
            yield f"{kernel}: {registers} registers; at most {limit}"
    if found == 0:
        yield "ptxas printed no kernel"


def objections_to_ptx(ptx):
    """Objections to the PTX. Each multiplication and addition must name its rounding, so that it is never contracted.
    Waiting kernels must read the clock and sleep."""
    for kernel, lines in sections(ptx, PTX_FUNCTION):
        text = "\n".join(lines)
        contracted = re.search(r"\b(?:mul|add|sub)\.(?:ftz\.)?f(?:32|64)\b", text)
        if contracted:
            yield f"{kernel}: {contracted[0]} may be contracted: was it compiled without -fmad=false?"
        if kernel not in FUSED and re.search(r"\bfma\.", text):
            yield f"{kernel}: has fused multiply-adds"
        if re.search(r"\b(?:mul|add|sub|fma|div|sqrt)\.(?:\w+\.)?ftz\b", text):
            yield f"{kernel}: flushes subnormal numbers to zero"
        if re.search(r"\b(?:div|sqrt)\.(?:approx|full)\b", text):
            yield f"{kernel}: divides or takes a root approximately"
        for what in ("%globaltimer", "nanosleep.", "ld.volatile"):
            if kernel in WAITING and what not in text:
                yield f"{kernel}: waits without {what}"


def objections_to_sass(sass):
    for kernel, lines in sections(sass, SASS_FUNCTION):
        text = "\n".join(lines)
        fused = re.search(r"\b[DFH]FMA\b", text)
        if fused and kernel not in FUSED_IN_SASS:
            yield f"{kernel}: has {fused[0]}"
        if re.search(r"\b(?:LDL|STL)\b", text):
            yield f"{kernel}: uses local memory"
        for what in ("SR_GLOBALTIMER", "NANOSLEEP"):
            if kernel in WAITING and what not in text:
                yield f"{kernel}: waits without {what}"


def compile_command(commands, source):
    """The build's command for the source, for one architecture, without a compiler cache and without an output."""
    entry = next(entry for entry in json.load(open(commands)) if os.path.samefile(entry["file"], source))
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if os.path.basename(word) == "nvcc"):]
    kept, skip = [], False
    for word in words:
        if skip or word in ("-o", "-MF", "-MT"):
            skip = not skip
        elif not word.startswith(("--generate-code", "-gencode", "-arch")) and word not in (
            "-c",
            "-MD",
            source,
            entry["file"],
        ):
            kept.append(word)
    return [*kept, "-arch=sm_90"]


def main(commands, source, options):
    with tempfile.TemporaryDirectory() as folder:
        built = os.path.join(folder, "kernels.cubin")
        command = [*compile_command(commands, source), *options]
        command += ["-Xptxas=-v", "--keep", "--keep-dir", folder, "-cubin", source, "-o", built]
        compiled = subprocess.run(command, capture_output=True, text=True)
        if compiled.returncode != 0:
            sys.exit(f"{shlex.join(command)}\n{compiled.stderr}")
        objections = list(objections_to_resources(compiled.stderr))
        ptx = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".ptx")]
        text = open(ptx[0]).read()
        names = {kernel for kernel, _ in sections(text, PTX_FUNCTION)}
        unknown = (FUSED_IN_SASS | set(FEWER_REGISTERS)) - names
        objections += [f"{name}: no such kernel" for name in sorted(unknown)]
        objections += objections_to_ptx(text)
        read = "ptxas, PTX"
        path = os.pathsep.join([os.path.dirname(command[0]), os.environ["PATH"]])
        if shutil.which("cuobjdump", path=path) and shutil.which("nvdisasm", path=path):
            dump = [shutil.which("cuobjdump", path=path), "-sass", built]
            sass = subprocess.run(
                dump, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
            ).stdout
            objections += objections_to_sass(sass)
            missing = names - {kernel for kernel, _ in sections(sass, SASS_FUNCTION)}
            objections += [f"{name}: not in the machine code" for name in sorted(missing)]
            read += ", SASS"
    print(f"{len(names)} kernels: {read}")
    if objections:
        sys.exit("\n".join(objections))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
