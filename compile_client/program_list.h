// The programs that a server lists, one after the other: pages are fetched as they are needed, so
// that memory does not grow with the store.
#pragma once

#include <deque>

#include "compile_client/rpc_client.h"

namespace hpu::client {

class ProgramList {
 public:
  // At most `limit` programs, 0 = all; with `upstream` also those of the servers that the server
  // asks, behind its own. `client` must live longer.
  ProgramList(RpcClient* client, uint32_t limit, bool upstream)
      : client_(client), left_(limit == 0 ? UINT64_MAX : limit), upstream_(upstream) {}

  // Newest first. Nothing: that was all. May wait for a page.
  absl::StatusOr<std::optional<Listed>> Next(const Interrupt& interrupt);

 private:
  absl::Status FetchPage(const Interrupt& interrupt);

  RpcClient* const client_;
  uint64_t left_;
  const bool upstream_;
  bool complete_ = false;
  ListQuery query_;
  std::deque<Listed> page_;
};

}  // namespace hpu::client
