// The parts of `--help` besides a command's options: what the command does, examples, its arguments, its exit codes.
#pragma once

namespace shardproof::launcher {

struct HelpText {
  const char* name;
  const char* summary;    ///< one sentence
  const char* examples;   ///< commands, each with what it does
  const char* arguments;  ///< in the usage line
  const char* footer;     ///< arguments that need an explanation, and exit codes
};

inline constexpr char program_summary[] =
    "Runs tests on many ranks at once, and a conformance suite for sharded-data-parallel engines.\n"
    "\n"
    "Examples:\n"
    "    shardproof run                               run the conformance suite on the reference engine\n"
    "    shardproof run --worker ./my_tests           run the tests of your own program\n"
    "    shardproof explain shardproof-out/latest     why the latest run ended early\n"
    "    shardproof run --help                        the options of a command\n";

inline constexpr char program_footer[] =
    "Exit codes:\n"
    "    0  The command succeeded.\n"
    "    2  The command line is wrong, or output cannot be written.\n"
    "\n"
    "The help of each command explains its other exit codes.";

inline constexpr HelpText run_help{
    .name = "run",
    .summary = "Run cases in worlds of real ranks, and write one report.",
    .examples =
        "    shardproof run overlap --ranks 2,4           one suite, on 2 and on 4 ranks\n"
        "    shardproof run 'overlap/*' '[reference]'     all cases that a glob or a tag selects\n"
        "    shardproof run --worker ./my_tests           the cases of your own program\n"
        "    shardproof run --out before --overwrite      again in a folder that holds an earlier run\n"
        "    shardproof run --rerun-failed before         the cases that failed there\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    A run takes each case that at least one filter selects. Without filters, it takes all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the run.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4      A rank crashed or hung.\n"
        "    5      Evidence is missing or corrupt, or ranks disagree.\n"
        "    1      A case failed.\n"
        "    6      Too many cases were skipped or waived, a required clause has no passed case, or a\n"
        "           waiver is over, wrong or unused.\n"
        "    0      All cases passed, except waived ones."};

inline constexpr HelpText list_help{
    .name = "list",
    .summary = "List the cases of a worker.",
    .examples =
        "    shardproof list overlap                      the cases of a suite\n"
        "    shardproof list --clauses                    each clause, its cases and its faults\n"
        "    shardproof list --worker ./my_tests --json   the cases of your own program, as JSON\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    The list has each case that at least one filter selects. Without filters, it has all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes:\n"
        "    0      The cases are listed.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker did not list its cases.\n"
        "    128+N  Signal N interrupted the command."};

inline constexpr HelpText faults_help{
    .name = "faults",
    .summary = "Run the cases on broken engines: a case has to notice each fault.",
    .examples =
        "    shardproof faults overlap                    one suite, on each fault that it can notice\n"
        "    shardproof faults --worker ./my_tests        the faults of your own program\n"
        "    shardproof faults overlap --out matrix       keep the report of each run\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    The command runs each case that at least one filter selects. Without filters, it runs all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4,5,1  Not all cases pass without a fault. The codes are those of `run`.\n"
        "    1      No selected case noticed a fault, although a case checks one of its clauses.\n"
        "    0      Cases noticed each fault, except faults of which all cases were skipped."};

inline constexpr HelpText merge_help{
    .name = "merge",
    .summary = "Make the report of a run that another launcher started, or that was cut short.",
    .examples = "    shardproof merge my_run                      write my_run/report.json\n",
    .arguments = "DIRECTORY",
    .footer =
        "Exit codes, the first that applies:\n"
        "    2  The command line is wrong, the directory has no world, or output cannot be written.\n"
        "    3  Ranks did not meet.\n"
        "    4  A rank crashed or hung.\n"
        "    5  Evidence is missing or corrupt, or ranks disagree.\n"
        "    1  A case failed.\n"
        "    6  A demand is not met, as in `run`.\n"
        "    0  All cases passed."};

inline constexpr HelpText diff_help{
    .name = "diff",
    .summary = "Show what changed between two reports.",
    .examples =
        "    shardproof diff before after                 two run directories\n"
        "    shardproof diff before/report.json new.json  two reports\n",
    .arguments = "BEFORE AFTER",
    .footer =
        "Exit codes:\n"
        "    0  Nothing got worse.\n"
        "    1  A result got worse.\n"
        "    2  The command line is wrong, a file is not a valid report, or output cannot be written."};

inline constexpr HelpText doctor_help{
    .name = "doctor",
    .summary = "Report machine settings that slow or break runs, and how to repair them.",
    .examples = "    shardproof doctor                            this machine\n",
    .arguments = "",
    .footer =
        "Exit codes:\n"
        "    0  Runs are possible. They may be slow.\n"
        "    2  The command line is wrong, or output cannot be written.\n"
        "    3  A setting prevents runs. With --backend: a setting prevents runs on GPUs."};

inline constexpr HelpText explain_help{
    .name = "explain",
    .summary = "Say why worlds of a run ended early: which rank died or hung, where, and which ranks waited.",
    .examples =
        "    shardproof explain shardproof-out/latest     the latest run\n"
        "    shardproof explain my_run/worlds/2           one of its worlds\n",
    .arguments = "DIRECTORY",
    .footer =
        "After a run with --nccl-tap, the command also lists the NCCL calls of the ranks.\n"
        "\n"
        "Exit codes:\n"
        "    0  The command explained the worlds.\n"
        "    2  The command line is wrong, the directory is not a run, or output cannot be written.\n"
        "    5  Evidence cannot be read, or no process saw how the ranks ended."};

inline constexpr HelpText play_help{
    .name = "play",
    .summary = "Play one scenario on real ranks, and show its times, its collectives and a timeline.",
    .examples =
        "    shardproof play scenario.json --ranks 4      on 4 ranks\n"
        "    shardproof play scenario.json --subject reference,pytorch\n"
        "                                                 on two engines, and what differs\n"
        "    shardproof play scenario.json --trace t.json\n"
        "                                                 write a trace for Perfetto\n"
        "    shardproof play scenario.json --show-plan    also print the compiled step\n",
    .arguments = "SCENARIO",
    .footer =
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, the scenario cannot be played, or output cannot be written.\n"
        "    3      The worker failed, or its ranks did not meet.\n"
        "    4      A rank crashed or hung.\n"
        "    5      Ranks disagree.\n"
        "    1      The subject failed, or a race was found.\n"
        "    0      The scenario was played.\n"
        "\n"
        "Exit codes with two subjects, after the first three above:\n"
        "    1      The subjects differ.\n"
        "    4      Both subjects crashed or hung.\n"
        "    0      The subjects do the same, which may be to refuse the scenario."};

inline constexpr HelpText explore_help{
    .name = "explore",
    .summary = "Play random small scenarios on two subjects, and make each difference as small as possible.",
    .examples =
        "    shardproof explore --subject reference,pytorch --rounds 1000\n"
        "                                                 1000 scenarios on two engines\n"
        "    shardproof explore --subject reference,reference+gather_before_step\n"
        "                                                 an engine, and the same engine with a fault\n",
    .arguments = "",
    .footer =
        "Exit codes, the first that applies:\n"
        "    128+N  Signal N interrupted the command.\n"
        "    2      The command line is wrong, or output cannot be written.\n"
        "    3      A worker failed, or its ranks did not meet.\n"
        "    1      A difference was found.\n"
        "    0      No difference was found.\n"
        "\n"
        "The command keeps what it has found, however it ends."};

inline constexpr HelpText stable_help{
    .name = "stable",
    .summary = "Print the part of a report that is equal, byte for byte, in all runs of one seed.",
    .examples = "    shardproof stable my_run                     compare its output by diff, cmp or a checksum\n",
    .arguments = "REPORT",
    .footer =
        "Exit codes:\n"
        "    0  The part is printed.\n"
        "    2  The command line is wrong, the file is not a valid report, or output cannot be written."};

}  // namespace shardproof::launcher
