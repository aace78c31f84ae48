#!/usr/bin/env python3
"""Runs the jobs of docs/continuous-integration.md in a bare Debian. Installs the Debian package of the build there, and
runs each job three times: on the main branch, for a harmless change, and for a change that breaks a case.

The project under test is the one of docs/ctest.md. Each job becomes a script of its commands. This test takes the place
of the hosted system: it evaluates the conditions, and keeps the report of the main branch.

    hosted_ci_test.py BUILD SCRATCH

Exit code 77: this machine cannot make a bare Debian.
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import yaml

from building_page import ROOT, call

BUILD, SCRATCH = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
del sys.argv[1:3]
WORK = SCRATCH / "ci"
RESULTS = WORK / "results"
CHANGES = {
    "main": "true",
    "harmless": "echo >> my_tests.cpp",
    "broken": "sed -i 's/iota(r [*] 10/iota(r * 11/' my_tests.cpp",
}
SYSTEMS = ("gitlab", "github")
CASES = {f"mine/all_gather_keeps_rank_order[W={ranks}]" for ranks in (2, 4)}

GITHUB_CONDITIONS = {
    None: "[ $failed = 0 ]",
    "always()": "true",
    "github.event_name == 'push'": "[ $failed = 0 ] && [ $CHANGE = main ]",
    "always() && github.event_name == 'pull_request'": "[ $CHANGE != main ]",
    "always() && hashFiles('baseline/report.json') != ''": "[ -e baseline/report.json ]",
}
GITHUB_ACTIONS = {
    "actions/checkout": "true",
    "actions/cache/restore": "cp -r ../cache/baseline .",
    "actions/cache/save": "mkdir -p ../cache && cp -r baseline ../cache/",
    "actions/upload-artifact": "test -e report/report.json",
}


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def github_script(workflow):
    """The job of a workflow as a script. An unknown condition or action is a KeyError."""
    lines = ["failed=0"]
    for step in workflow["jobs"]["ranks"]["steps"]:
        action = step.get("uses", "").partition("@")[0]
        body = step["run"] if "run" in step else GITHUB_ACTIONS[action]
        lines.append(f"if {GITHUB_CONDITIONS[step.get('if')]}; then bash -ec {shlex.quote(body)} || failed=1; fi")
    return "\n".join([*lines, "exit $failed", ""])


def gitlab_script(job):
    """A job as a script. GitLab runs its lines in one shell, and serves the artifacts of the last job of a branch."""
    variables = [f'export {name}="{value}"' for name, value in job["variables"].items()]
    keep = 'artifacts=$CI_API_FOLDER/projects/$CI_PROJECT_ID/jobs/artifacts/$CHANGE/raw; mkdir -p "$artifacts"'
    kept = [f"{keep}; cp -r {path} \"$artifacts/\"" for path in job["artifacts"]["paths"]]
    at_end = f"trap {shlex.quote('; '.join(kept))} EXIT"
    return "\n".join(["set -eo pipefail", *variables, at_end, *job["before_script"], *job["script"], ""])


def write_project(folder):
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(blocks("ctest.md", "cmake")[0], encoding="utf-8")
    (folder / "my_tests.cpp").write_text(blocks("ctest.md", "cpp")[0], encoding="utf-8")


class HostedCi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        write_project(WORK / "project")
        call(f"cpack --config {BUILD}/CPackConfig.cmake -B {SCRATCH}/packages", SCRATCH)
        package, = (SCRATCH / "packages").glob("*.deb")
        shutil.copy(package, WORK / "shardproof.deb")
        github, gitlab = (yaml.safe_load(text) for text in blocks("continuous-integration.md", "yaml"))
        cls.jobs = {"github": github["jobs"]["ranks"], "gitlab": gitlab["ranks"]}
        (WORK / "github.sh").write_text(github_script(github), encoding="utf-8")
        (WORK / "gitlab.sh").write_text(gitlab_script(gitlab["ranks"]), encoding="utf-8")
        (WORK / "all.sh").write_text(cls.all_jobs(), encoding="utf-8")
        result = subprocess.run([ROOT / "scripts/bare-debian", WORK, "bash", "all.sh"], timeout=1500)
        if result.returncode == 77:
            sys.exit(77)
        if result.returncode != 0:
            sys.exit(f"the jobs did not run: exit code {result.returncode}")

    @staticmethod
    def all_jobs():
        """A script that runs each job for each change, in a folder of its own, and keeps output and exit code."""
        home = f"/root/{WORK.name}"
        lines = [
            f"mkdir {home}/results {home}/api",
            f"export SHARDPROOF_PACKAGE=file://{home}/shardproof.deb CI_API_FOLDER={home}/api",
            "export CI_API_V4_URL=file://$CI_API_FOLDER CI_PROJECT_ID=7 CI_DEFAULT_BRANCH=main CI_JOB_TOKEN=token",
        ]
        for system in SYSTEMS:
            for change, edit in CHANGES.items():
                result = f"{home}/results/{system}_{change}"
                lines += [
                    f"mkdir -p {home}/{system} && cp -r {home}/project {home}/{system}/{change}",
                    f"cd {home}/{system}/{change} && {edit}",
                    f"export CHANGE={change} GITHUB_STEP_SUMMARY={result}.md GITHUB_WORKSPACE=$PWD",
                    f"bash {home}/{system}.sh >{result}.log 2>&1",
                    f"echo $? >{result}.code",
                    f"cp report/junit.xml {result}.xml || true",
                ]
        return "\n".join([*lines, ""])

    def result(self, system, change, kind):
        return (RESULTS / f"{system}_{change}.{kind}").read_text(encoding="utf-8")

    def expect(self, change, code, *texts):
        for system in SYSTEMS:
            with self.subTest(system=system, change=change):
                output = self.result(system, change, "log")
                self.assertEqual(self.result(system, change, "code").strip(), code, output)
                for text in texts:
                    self.assertIn(text, output)

    def test_the_main_branch_passes_and_compares_with_nothing(self):
        self.expect("main", "0", "2 passed")
        for system in SYSTEMS:
            self.assertNotIn("gate:", self.result(system, "main", "log"))

    def test_a_harmless_change_passes_the_gate(self):
        self.expect("harmless", "0", "2 passed", "2 unchanged", "gate: passed")

    def test_a_change_that_breaks_a_case_fails_the_job_and_the_gate(self):
        self.expect("broken", "1", "new_failure", "gate: failed")

    def test_junit_has_each_case_and_its_failure(self):
        for system in SYSTEMS:
            for change, failures in (("main", 0), ("broken", 2)):
                document = xml.etree.ElementTree.fromstring(self.result(system, change, "xml"))
                cases = list(document.iter("testcase"))
                self.assertEqual({case.get("name") for case in cases}, CASES)
                self.assertEqual(sum(case.find("failure") is not None for case in cases), failures)

    def test_github_gets_a_summary_and_annotations(self):
        self.assertIn("2 passed", self.result("github", "main", "md"))
        self.assertIn("mine/all_gather_keeps_rank_order[W=2]", self.result("github", "broken", "md"))
        self.assertRegex(self.result("github", "broken", "log"), r"(?m)^::error file=my_tests\.cpp,line=6,")
        self.assertNotIn("::error", self.result("github", "main", "log"))

    def test_both_jobs_install_the_same(self):
        github = next(step["run"] for step in self.jobs["github"]["steps"] if step.get("name") == "Install")
        self.assertEqual(re.sub(r" \\\n +", " ", github).splitlines(), self.jobs["gitlab"]["before_script"])


if __name__ == "__main__":
    unittest.main()
