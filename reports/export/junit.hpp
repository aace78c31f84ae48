// The report as JUnit XML, which hosted CI systems show. It keeps to the elements and attributes that the schema of
// Jenkins' xUnit plugin (junit-10.xsd) allows. Pure.
//
// A test suite is a suite of cases and not a world. CI systems follow a test over many runs by its suite and name. The
// world of a case depends on world sizes, on retries and on ranks that die, so its history would break.
//
//   - The name of a test is the case's id, and its class is the suite.
//   - `failure` is an assertion that failed. `error` is every other bad verdict. Both have the terminal's text.
//   - A waived case is skipped. The message has the waiver's owner, last day and reason.
//   - An earlier attempt is `flakyFailure` or `flakyError`, if a later attempt passed.
//   - If no attempt passed, it is `rerunFailure` or `rerunError`.
//   - The suite `shardproof run` has the failures of the run, such as unmet demands. Without them, it is absent.
#pragma once

#include <string>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

std::string junit(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
