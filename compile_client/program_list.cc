#include "compile_client/program_list.h"

#include <algorithm>

namespace hpu::client {
namespace {

// Without a limit, servers that ask each other in a circle would make the list endless.
constexpr uint32_t kMaxUpstream = 8;

}  // namespace

absl::StatusOr<std::optional<Listed>> ProgramList::Next(const Interrupt& interrupt) {
  while (page_.empty() && !complete_ && left_ > 0) RETURN_IF_ERROR(FetchPage(interrupt));
  if (page_.empty() || left_ == 0) return std::optional<Listed>();
  --left_;
  std::optional<Listed> next = std::move(page_.front());
  page_.pop_front();
  return next;
}

absl::Status ProgramList::FetchPage(const Interrupt& interrupt) {
  query_.limit = static_cast<uint32_t>(std::min<uint64_t>(left_, UINT32_MAX));
  absl::StatusOr<ListPage> page = client_->List(query_, interrupt);
  if (query_.upstream > 0 && absl::IsNotFound(page.status())) {
    complete_ = true;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(page.status());
  page_.assign(std::make_move_iterator(page->programs.begin()),
               std::make_move_iterator(page->programs.end()));
  query_.after = page->next;
  if (page->next.has_value()) return absl::OkStatus();
  complete_ = !upstream_ || query_.upstream == kMaxUpstream;
  ++query_.upstream;
  return absl::OkStatus();
}

}  // namespace hpu::client
