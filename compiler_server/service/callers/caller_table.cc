#include "compiler_server/service/callers/caller_table.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/regular_file.h"

namespace hpu::server {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kMaxFileBytes = 8 << 20;

struct RoleName {
  std::string_view name;
  Role role;
};
// Nobody gets kOwner over the network.
constexpr RoleName kRoleNames[] = {
    {"read", Role::kRead}, {"compile", Role::kCompile}, {"admin", Role::kAdmin}};

absl::Status Bad(int line, const char* field, const std::string& value, const char* wanted) {
  return InvalidArgument("line ", line, ", field ", field, ": '", value, "' is not ", wanted);
}

bool IsName(const std::string& text) {
  return text.size() <= 64 && std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view("._-@").find(c) != std::string_view::npos;
         });
}

absl::StatusOr<uint8_t> ParseRoles(int line, const std::string& text) {
  uint8_t roles = 0;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto* found = std::ranges::find(kRoleNames, part, &RoleName::name);
    if (found == std::end(kRoleNames)) {
      return Bad(line, "ROLES", text, "read, compile or admin, separated by commas");
    }
    roles |= static_cast<uint8_t>(found->role);
  }
  return roles;
}

absl::Status ParseCredential(int line, const std::string& text, CallerRow& row) {
  if (text == "certificate") {
    row.by_certificate = true;
    return absl::OkStatus();
  }
  constexpr char kWanted[] = "'certificate' or 'sha256:' and 64 hexadecimal digits";
  if (!text.starts_with(kDigestPrefix)) return Bad(line, "CREDENTIAL", text, kWanted);
  const std::optional<Digest> digest = DigestFromHex(text.substr(kDigestPrefix.size()));
  if (!digest.has_value()) return Bad(line, "CREDENTIAL", text, kWanted);
  row.token_digest = *digest;
  return absl::OkStatus();
}

// The caller is valid until the first second after that day, UTC.
absl::Status ParseLastDay(int line, const std::string& text, CallerRow& row) {
  tm day{};
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &day);
  const int day_of_month = day.tm_mday;
  const bool is_date = end != nullptr && *end == 0 && day.tm_year >= 2000 - 1900;
  // timegm turns the 31st of February into the 3rd of March.
  const time_t begin = is_date ? timegm(&day) : 0;
  if (!is_date || day.tm_mday != day_of_month) {
    return Bad(line, "LAST DAY", text, "a date as 2027-01-31");
  }
  row.end_unix_seconds = begin + 24 * 60 * 60;
  return absl::OkStatus();
}

bool IsOver(const CallerRow& row) {
  return static_cast<int64_t>(MicrosOfEpoch() / 1'000'000) >= row.end_unix_seconds;
}

absl::StatusOr<CallerRow> ParseRow(int line, const std::string& text) {
  std::istringstream fields(text);
  std::string name, tenant, roles, credential, last_day, more;
  const bool enough = static_cast<bool>(fields >> name >> tenant >> roles >> credential);
  if (!enough || (fields >> last_day && fields >> more)) {
    return InvalidArgument("line ", line,
                           ": it has four fields, NAME TENANT ROLES CREDENTIAL, and may have a "
                           "fifth, the last day");
  }
  constexpr char kName[] = "1 to 64 letters, digits or ._-@";
  if (!IsName(name)) return Bad(line, "NAME", name, kName);
  if (!IsName(tenant)) return Bad(line, "TENANT", tenant, kName);
  CallerRow row;
  row.caller.name = name;
  row.caller.tenant = tenant;
  ASSIGN_OR_RETURN(row.caller.roles, ParseRoles(line, roles));
  RETURN_IF_ERROR(ParseCredential(line, credential, row));
  if (!last_day.empty()) RETURN_IF_ERROR(ParseLastDay(line, last_day, row));
  return row;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  // A user who can write the file could give themselves any role.
  RETURN_IF_ERROR(file.CheckOwner(RegularFile::Use::kPublic));
  return file.Read(kMaxFileBytes);
}

absl::Status Unauthenticated(const char* why) {
  return Error(absl::StatusCode::kUnauthenticated, why);
}

}  // namespace

absl::StatusOr<std::vector<CallerRow>> ParseCallers(const std::string& text) {
  std::vector<CallerRow> rows;
  std::set<std::string> names;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ASSIGN_OR_RETURN(rows.emplace_back(), ParseRow(number, line));
    if (!names.insert(rows.back().caller.name).second) {
      return Bad(number, "NAME", rows.back().caller.name, "new: an earlier line has it");
    }
    if (rows.size() > kMaxCallers) {
      return InvalidArgument("line ", number, ": more than ", kMaxCallers, " callers");
    }
  }
  return rows;
}

absl::StatusOr<std::unique_ptr<CallerTable>> CallerTable::Load(const std::string& path) {
  std::unique_ptr<CallerTable> table(new CallerTable(path));
  RETURN_IF_ERROR(table->Reload().status());
  // Later, an empty file is the way to shut everybody out; at the start the listener would serve
  // nobody.
  if (table->rows_.empty()) return InvalidArgument("callers' file ", path, " names no caller");
  return table;
}

absl::StatusOr<bool> CallerTable::Reload() {
  absl::StatusOr<std::string> read = ReadText(path_);
  RETURN_IF_ERROR_AT(read.status(), "callers' file");
  std::string text = *std::move(read);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (text == text_) return false;
  }
  absl::StatusOr<std::vector<CallerRow>> rows = ParseCallers(text);
  if (!rows.ok()) return Annotate(rows.status(), "callers' file " + path_);
  std::lock_guard<std::mutex> lock(mutex_);
  text_ = std::move(text);
  rows_ = *std::move(rows);
  return true;
}

absl::StatusOr<Caller> CallerTable::Identify(const grpc::ServerContext& context) const {
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find("authorization"); found != metadata.end()) {
    const std::string_view value(found->second.data(), found->second.size());
    if (!value.starts_with(kBearer)) return Unauthenticated("the authorization is no Bearer token");
    return OfToken(std::string(value.substr(kBearer.size())));
  }
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) {
    return Unauthenticated("neither a token nor a client certificate was shown");
  }
  std::vector<std::string> names;
  for (const grpc::string_ref& name : auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
    names.emplace_back(name.data(), name.size());
  }
  return OfCertificate(names);
}

absl::StatusOr<Caller> CallerTable::OfToken(const std::string& token) const {
  // Comparing digests keeps an attacker from learning anything about a token by timing.
  const Digest digest = Sha256({reinterpret_cast<const uint8_t*>(token.data()), token.size()});
  std::lock_guard<std::mutex> lock(mutex_);
  for (const CallerRow& row : rows_) {
    if (row.by_certificate || row.token_digest != digest) continue;
    if (IsOver(row)) return Unauthenticated("the time of this token is over");
    return row.caller;
  }
  return Unauthenticated("nobody has this token");
}

absl::StatusOr<Caller> CallerTable::OfCertificate(const std::vector<std::string>& names) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const CallerRow& row : rows_) {
    if (!row.by_certificate || std::ranges::find(names, row.caller.name) == names.end()) continue;
    if (IsOver(row)) return Unauthenticated("the time of this caller is over");
    return row.caller;
  }
  return Unauthenticated("no caller has the common name of this certificate");
}

}  // namespace hpu::server
