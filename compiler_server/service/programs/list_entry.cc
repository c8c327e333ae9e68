#include "compiler_server/service/programs/list_entry.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxListEntryBytes = store::kMaxManifestBytes + 3 * store::kMaxAliasBytes;

bool Parse(const absl::StatusOr<Bytes>& encoded, google::protobuf::Message* message) {
  return encoded.ok() &&
         message->ParseFromArray(encoded->data(), static_cast<int>(encoded->size()));
}

}  // namespace

std::optional<wire::ListEntry> ToListEntry(const client::Listed& program) {
  wire::ListEntry entry;
  if (!Parse(store::EncodeManifest(program.manifest), entry.mutable_manifest())) {
    return std::nullopt;
  }
  entry.set_hits(program.hits);
  entry.set_pinned(program.pinned);
  entry.set_upstream(program.upstream);
  for (const store::Alias& alias : program.aliases) {
    if (entry.ByteSizeLong() + store::kMaxAliasBytes > kMaxListEntryBytes) break;
    if (!Parse(store::EncodeAlias(alias), entry.add_aliases())) {
      entry.mutable_aliases()->RemoveLast();
    }
  }
  return entry;
}

}  // namespace hpu::server
