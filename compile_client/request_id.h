// What a call is known by in the logs of everybody who has to do with it.
#pragma once

#include <string>
#include <string_view>

namespace hpu::client {

inline constexpr char kRequestIdHeader[] = "x-request-id";

// 16 hexadecimal digits, drawn anew.
std::string NewRequestId();
// 1 to 64 letters, digits, '-' or '_'.
bool IsRequestId(std::string_view text);

// Calls that this thread makes while it lives bear this id: a server that asks others for a request
// hands on its name.
class RequestScope {
 public:
  explicit RequestScope(std::string id);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;

  // Of this thread; a new one where there is no scope.
  static std::string Current();

 private:
  const std::string id_;
  const RequestScope* const outer_;
};

}  // namespace hpu::client
