#include "harness/player/remembering_communicator.hpp"

#include <utility>
#include <vector>

namespace shardproof::player {

RememberingCommunicator::RememberingCommunicator(Communicator& inner, std::shared_ptr<Notebook> notebook,
                                                 bool enforces_tags)
    : inner_(std::shared_ptr<void>(), &inner),
      notebook_(std::move(notebook)),
      enforces_tags_(enforces_tags),
      thrown_(std::make_shared<std::exception_ptr>()) {}

RememberingCommunicator::RememberingCommunicator(std::shared_ptr<Communicator> inner,
                                                 const RememberingCommunicator& whole)
    : inner_(std::move(inner)),
      notebook_(whole.notebook_),
      enforces_tags_(whole.enforces_tags_),
      thrown_(whole.thrown_) {}

template <class Call> void RememberingCommunicator::remembering(Call&& call) {
  try {
    call();
  } catch (...) {
    if (!*thrown_) *thrown_ = std::current_exception();
    throw;
  }
}

Collective RememberingCommunicator::noted(Stream stream, const Collective& collective) {
  notebook_->note_operand(stream, collective, members());
  Collective issued = collective;
  issued.enforces_tag = enforces_tags_;
  return issued;
}

void RememberingCommunicator::run(Stream stream, const Collective& collective) {
  const Collective issued = noted(stream, collective);
  remembering([&] { inner_->run(stream, issued); });
}

void RememberingCommunicator::run_coalesced(Stream stream, std::span<const Collective> collectives) {
  std::vector<Collective> issued;
  for (const Collective& collective : collectives) issued.push_back(noted(stream, collective));
  remembering([&] { inner_->run_coalesced(stream, issued); });
}

std::unique_ptr<Communicator> RememberingCommunicator::split(int color, int key, std::string_view name) {
  std::shared_ptr<Communicator> part;
  remembering([&] { part = inner_->split(color, key, name); });
  return part ? std::unique_ptr<Communicator>(new RememberingCommunicator(std::move(part), *this)) : nullptr;
}

}  // namespace shardproof::player
