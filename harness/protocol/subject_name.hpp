// What the launcher and its workers alike understand by the name of a subject.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof {

/// Whether it is the path of a shared object; otherwise it is a name that the worker knows.
constexpr bool is_shared_object(std::string_view subject) {
  return subject.find('/') != std::string_view::npos || subject.ends_with(".so");
}

/// The engine that ships with shardproof.
inline constexpr std::string_view reference_subject = "reference";
/// The former name of the reference subject, from when it had one engine kind.
inline constexpr std::string_view former_reference_subject = "fully_shard";
/// PyTorch, as the project's own package brings it, and the program that does.
inline constexpr std::string_view pytorch_subject = "pytorch";
inline constexpr std::string_view pytorch_worker_program = "shardproof-pytorch-worker";

/// Of a subject's name and of its version.
inline constexpr std::size_t longest_subject_text = 64;

/// Why reports and a terminal cannot show it as what it is; empty: they can.
std::string objection_to_subject_text(std::string_view text);
/// Why `--subject` could not ask for it by this name, or would mean another; empty: it can. `own`: the one of the names above that it has
/// by right, if any.
std::string objection_to_subject_name(std::string_view name, std::string_view own);

}  // namespace shardproof
