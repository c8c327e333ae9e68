// The part of CompileService that lists the programs that a caller may see, page by page.
#include "compiler_server/service/programs/list_entry.h"
#include "compiler_server/service/queue/compile_request.h"
#include "compiler_server/service/rpc/compile_service.h"
#include "proto/grpc_status.h"

namespace hpu::server {
namespace {

constexpr uint32_t kMaxEntries = 1000;
constexpr size_t kMaxPageBytes = 1 << 20;  // unless one entry alone is larger
// The number of programs that are looked at for one page, because a tenant may have names for few
// of them.
constexpr size_t kMaxSeen = 10'000;
constexpr size_t kStep = 100;

void SetNext(const store::ListPosition& position, wire::ListReply* reply) {
  reply->mutable_next()->set_created_unix_seconds(position.created_unix_seconds);
  reply->mutable_next()->set_content_key(store::ToString(position.key));
}

// The entries of a page. Returns false if the page is full and does not contain this one.
class Page {
 public:
  Page(uint32_t limit, wire::ListReply* reply)
      : limit_(limit == 0 ? kMaxEntries : std::min(limit, kMaxEntries)), reply_(reply) {}

  bool Add(const client::Listed& program) {
    std::optional<wire::ListEntry> entry = ToListEntry(program);
    if (!entry.has_value()) return true;
    bytes_ += entry->ByteSizeLong();
    if (reply_->entries_size() > 0 && bytes_ > kMaxPageBytes) return false;
    if (reply_->entries_size() == static_cast<int>(limit_)) return false;
    *reply_->add_entries() = *std::move(entry);
    return true;
  }

 private:
  const uint32_t limit_;
  wire::ListReply* const reply_;
  size_t bytes_ = 0;
};

}  // namespace

grpc::Status CompileService::List(const Caller& caller, const wire::ListRequest& request,
                                  wire::ListReply* reply) {
  client::ListQuery query{request.limit(), request.upstream(), std::nullopt};
  if (request.has_after()) {
    const absl::StatusOr<Digest> key = ToKey(request.after().content_key(), "content key");
    if (!key.ok()) return ToGrpc(key.status());
    query.after = {request.after().created_unix_seconds(), *key};
  }
  if (query.upstream == 0) return ToGrpc(ListOwn(caller, query, reply));
  --query.upstream;
  absl::StatusOr<client::ListPage> others = others_.List(caller.tenant, query);
  // A server that does not answer has nothing to list.
  if (!others.ok()) return ToGrpc(NotFound(others.status().message()));
  Page page(0, reply);
  std::optional<store::ListPosition> last = query.after;
  for (client::Listed& program : others->programs) {
    program.upstream = true;
    if (!page.Add(program)) {
      SetNext(*last, reply);
      return grpc::Status::OK;
    }
    last = store::PositionOf(program.manifest);
  }
  if (others->next.has_value()) SetNext(*others->next, reply);
  return grpc::Status::OK;
}

absl::Status CompileService::ListOwn(const Caller& caller, const client::ListQuery& query,
                                     wire::ListReply* reply) {
  Page page(query.limit, reply);
  std::optional<store::ListPosition> last = query.after;
  for (size_t seen = 0; seen < kMaxSeen; seen += kStep) {
    ASSIGN_OR_RETURN(const std::vector<TenantPrograms::Seen> programs,
                     programs_.List(caller, kStep, last));
    for (const TenantPrograms::Seen& one : programs) {
      if (one.program.has_value() && !page.Add(*one.program)) {
        SetNext(*last, reply);
        return absl::OkStatus();
      }
      last = one.position;
    }
    if (programs.size() < kStep) return absl::OkStatus();
  }
  SetNext(*last, reply);
  return absl::OkStatus();
}

}  // namespace hpu::server
