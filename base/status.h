// Failures are values: absl::Status with the codes of ARCHITECTURE.md (table "Errors"), plus
// features that the packaged absl lacks: construction from std::string_view, context chains,
// macros.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <sstream>
#include <string>
#include <utility>

namespace hpu {

// Error(code, "what ", value, ...) streams its parts, so std types work (absl::StrCat of this
// version takes no std::string_view).
template <typename... Parts>
[[nodiscard]] absl::Status Error(absl::StatusCode code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return absl::Status(code, text.str());
}
template <typename... Parts>
[[nodiscard]] absl::Status InvalidArgument(const Parts&... parts) {
  return Error(absl::StatusCode::kInvalidArgument, parts...);
}
template <typename... Parts>
[[nodiscard]] absl::Status Unimplemented(const Parts&... parts) {
  return Error(absl::StatusCode::kUnimplemented, parts...);
}
template <typename... Parts>
[[nodiscard]] absl::Status Internal(const Parts&... parts) {
  return Error(absl::StatusCode::kInternal, parts...);
}
template <typename... Parts>
[[nodiscard]] absl::Status NotFound(const Parts&... parts) {
  return Error(absl::StatusCode::kNotFound, parts...);
}
template <typename... Parts>
[[nodiscard]] absl::Status DataLoss(const Parts&... parts) {
  return Error(absl::StatusCode::kDataLoss, parts...);
}

// Puts "context: " before the message and keeps code and payloads.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, const std::string& context);

// Returns "INVALID_ARGUMENT: text", or "OK" for success.
std::string ToText(const absl::Status& status);

}  // namespace hpu

#define RETURN_IF_ERROR(expr)                  \
  do {                                         \
    absl::Status hpu_status_ = (expr);         \
    if (!hpu_status_.ok()) return hpu_status_; \
  } while (false)

#define RETURN_IF_ERROR_AT(expr, context)                                  \
  do {                                                                     \
    absl::Status hpu_status_ = (expr);                                     \
    if (!hpu_status_.ok()) return ::hpu::Annotate(hpu_status_, (context)); \
  } while (false)

#define HPU_STATUS_CONCAT_INNER(a, b) a##b
#define HPU_STATUS_CONCAT(a, b) HPU_STATUS_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(HPU_STATUS_CONCAT(hpu_statusor_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                          \
  if (!var.ok()) return var.status();         \
  lhs = std::move(var).value()

// Aborts. This is only for our own bugs; neither user input nor bytes from the wire or from disk
// may reach it.
#define HPU_CHECK(cond, ...) \
  (static_cast<bool>(cond) ? void() : ::hpu::CheckFailed(#cond, __FILE__, __LINE__, "" __VA_ARGS__))

namespace hpu {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line, const char* text);
}  // namespace hpu
