"""The commands that docs/building.md shows, and the README's test. The tests of packages run them as a reader would."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/building.md").read_text(encoding="utf-8")


def console(heading):
    """The console block below a heading of the page, as a script of Bash."""
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", PAGE, re.M | re.S)
    assert section, f"docs/building.md has no heading {heading}"
    commands = re.findall(r"^\$ (.*)", "".join(re.findall(r"```console\n(.*?)```", section[1], re.S)), re.M)
    assert commands, f"docs/building.md shows no command below {heading}"
    return "set -e\n" + "\n".join(commands) + "\n"


def call(script, folder, timeout=600, **options):
    """Runs a script of Bash, and returns its output. Throws with the output if the script fails."""
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=timeout, **options,
    )
    assert done.returncode == 0, f"{script}\nended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def write_readmes_test(folder):
    """Writes my_tests.cpp and CMakeLists.txt, as the README says, into a new folder."""
    folder.mkdir(parents=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "my_tests.cpp").write_text(re.search(r"```cpp\n(.*?)```", readme, re.S)[1], encoding="utf-8")
    guide = (ROOT / "docs/write-a-case.md").read_text(encoding="utf-8")
    (folder / "CMakeLists.txt").write_text(re.search(r"```cmake\n(.*?)```", guide, re.S)[1], encoding="utf-8")
