// The meaning of a subject's name, shared by the launcher and its workers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof::protocol {

/// True when the subject is the path of a shared object. Otherwise it is a name that the worker knows.
constexpr bool is_shared_object(std::string_view subject) {
  return subject.find('/') != std::string_view::npos || subject.ends_with(".so");
}

/// The engine that ships with shardproof.
inline constexpr std::string_view reference_subject = "reference";
/// The former name of the reference subject, from the time when it had one engine kind.
inline constexpr std::string_view former_reference_subject = "fully_shard";
/// PyTorch from the project's own package, and the worker program that provides it.
inline constexpr std::string_view pytorch_subject = "pytorch";
inline constexpr std::string_view pytorch_worker_program = "shardproof-pytorch-worker";

/// The longest name and the longest version of a subject, in bytes.
inline constexpr std::size_t longest_subject_text = 64;

/// The reason why reports and a terminal cannot show the text as it is. Empty: they can.
std::string objection_to_subject_text(std::string_view text);
/// The reason why `--subject` could not select the subject by this name, or would select another one. Empty: it can.
/// `own` is the name above that the subject rightly has, if any.
std::string objection_to_subject_name(std::string_view name, std::string_view own);

}  // namespace shardproof::protocol
