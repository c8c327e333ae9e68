#include "synapse/recipe_bytes.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace hpu {
namespace {

// A file in memory, which the library opens by the path of its descriptor.
class AnonymousFile {
 public:
  AnonymousFile() : descriptor_(memfd_create("recipe", MFD_CLOEXEC)) {}
  AnonymousFile(const AnonymousFile&) = delete;
  AnonymousFile& operator=(const AnonymousFile&) = delete;
  ~AnonymousFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  absl::Status Check() const {
    return descriptor_ >= 0 ? absl::OkStatus()
                            : Error(absl::StatusCode::kResourceExhausted,
                                    "no anonymous file for a recipe: ", std::strerror(errno));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  absl::StatusOr<Bytes> Read() const {
    struct stat info{};
    if (fstat(descriptor_, &info) != 0) return Internal("fstat: ", std::strerror(errno));
    Bytes bytes(static_cast<size_t>(info.st_size));
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t got =
          pread(descriptor_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (got <= 0) return Internal("reading a serialised recipe: ", std::strerror(errno));
      at += static_cast<size_t>(got);
    }
    return bytes;
  }

  absl::Status Write(std::span<const uint8_t> bytes) const {
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t put =
          pwrite(descriptor_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (put <= 0) {
        return Error(absl::StatusCode::kResourceExhausted, "writing a recipe of ", bytes.size(),
                     " bytes to memory: ", std::strerror(errno));
      }
      at += static_cast<size_t>(put);
    }
    return absl::OkStatus();
  }

 private:
  int descriptor_;
};

}  // namespace

absl::StatusOr<Bytes> SerializeRecipe(const SynapseFunctions& functions, synRecipeHandle recipe) {
  const AnonymousFile file;
  RETURN_IF_ERROR(file.Check());
  RETURN_IF_ERROR(ToStatus(functions, functions.synRecipeSerialize(recipe, file.path().c_str()),
                           "synRecipeSerialize"));
  return file.Read();
}

absl::StatusOr<RecipeHandle> DeserializeRecipe(const SynapseFunctions& functions,
                                               std::span<const uint8_t> bytes) {
  synRecipeHandle handle = nullptr;
  if (functions.synEmulatorRecipeDeserialize != nullptr) {
    RETURN_IF_ERROR(ToStatus(
        functions, functions.synEmulatorRecipeDeserialize(&handle, bytes.data(), bytes.size()),
        "synEmulatorRecipeDeserialize"));
    return RecipeHandle(functions, handle);
  }
  const AnonymousFile file;
  RETURN_IF_ERROR(file.Check());
  RETURN_IF_ERROR(file.Write(bytes));
  RETURN_IF_ERROR(ToStatus(functions, functions.synRecipeDeSerialize(&handle, file.path().c_str()),
                           "synRecipeDeSerialize"));
  return RecipeHandle(functions, handle);
}

}  // namespace hpu
