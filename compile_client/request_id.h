// The id of a call in the logs of client and servers.
#pragma once

#include <string>
#include <string_view>

namespace hpu::client {

inline constexpr char kRequestIdHeader[] = "x-request-id";

// Makes a new random id of 16 hexadecimal digits.
std::string NewRequestId();
// Whether it is 1 to 64 letters, digits, '-' or '_'.
bool IsRequestId(std::string_view text);

// During its lifetime, calls of this thread carry this id: a server that asks others on behalf of a
// request passes on the id of that request.
class RequestScope {
 public:
  explicit RequestScope(std::string id);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;

  // The id of this thread; a new one if there is no scope.
  static std::string Current();

 private:
  const std::string id_;
  const RequestScope* const outer_;
};

}  // namespace hpu::client
