// Fills a closed store with small programs, each with an alias, as a server with many writers
// would: FOLDER COUNT THREADS. Every write is synced, together with those of the other threads.
// Prints the number of programs stored per second.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "recipe_store/signing/signing.h"

namespace hpu::store {
namespace {

Digest DigestOf(const char* what, uint64_t number) {
  Hasher hasher;
  return hasher.Field(what).Number(static_cast<int64_t>(number)).Finish();
}

Blob BytesOf(const char* what, uint64_t number, size_t size) {
  auto bytes = std::make_shared<Bytes>();
  for (uint64_t part = 0; bytes->size() < size; ++part) {
    const Digest digest = DigestOf(what, number * 100 + part);
    bytes->insert(bytes->end(), digest.begin(), digest.end());
  }
  bytes->resize(size);
  return bytes;
}

absl::Status File(RecipeStore& store, const SigningKey& key, uint64_t number) {
  std::vector<Blob> blobs = {BytesOf("program", number, 400), BytesOf("recipe", number, 100)};
  Manifest manifest;
  manifest.content = {DigestOf("graph", number), {}, "gaudi2", "x86-64-v3", "store_fill"};
  manifest.program = {Sha256(*blobs[0]), blobs[0]->size()};
  manifest.recipes = {{Sha256(*blobs[1]), blobs[1]->size()}};
  manifest.compile_micros = 1000;
  manifest.created_unix_seconds = 1'700'000'000 + static_cast<int64_t>(number / 100);
  ASSIGN_OR_RETURN(Bytes encoded, EncodeManifest(manifest));
  ASSIGN_OR_RETURN(const Entry entry, MakeEntry(key.Sign(RecordKind::kManifest, std::move(encoded)),
                                                std::move(blobs)));
  RETURN_IF_ERROR(store.Put(entry));
  Alias alias;
  alias.tenant = "local";
  alias.front_end_key = DigestOf("front end", number);
  alias.content_key = manifest.key();
  alias.created_unix_seconds = manifest.created_unix_seconds;
  alias.factors = {{"graph", ToHex(manifest.content.graph)}};
  alias.label = "graph_" + std::to_string(number);
  ASSIGN_OR_RETURN(Bytes name, EncodeAlias(alias));
  return store.PutAlias({key.Sign(RecordKind::kAlias, std::move(name)), alias});
}

absl::Status Fill(const std::string& folder, uint64_t count, unsigned writers) {
  ASSIGN_OR_RETURN(const SigningKey key, SigningKey::LoadOrCreate(folder));
  ASSIGN_OR_RETURN(const std::unique_ptr<RecipeStore> store,
                   RocksDbRecipeStore::Open(folder + "/db", uint64_t{1} << 40));
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<uint64_t> next{0};
  std::vector<absl::Status> ends(writers);
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (uint64_t n = next++; n < count && ends[writer].ok(); n = next++) {
        ends[writer] = File(*store, key, n);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) RETURN_IF_ERROR(end);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << static_cast<double>(count) / took.count() << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace hpu::store

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "store_fill FOLDER COUNT THREADS\n";
    return 2;
  }
  const absl::Status filled = hpu::store::Fill(argv[1], std::strtoull(argv[2], nullptr, 10),
                                               static_cast<unsigned>(std::atoi(argv[3])));
  if (filled.ok()) return 0;
  std::cerr << hpu::ToText(filled) << "\n";
  return 1;
}
