#include "backend/torch/eager/extension_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

bool IsTorchLibrary(std::string_view name) {
  return name.starts_with("libtorch") || name.starts_with("libc10");
}

// The loader has made the addresses in the dynamic section absolute, except in the kernel's vDSO,
// whose section nothing relocates.
bool NeedsTorch(const dl_phdr_info& info) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  if (dynamic == nullptr) return false;
  uintptr_t strings = 0;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
  }
  if (strings < info.dlpi_addr) return false;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    if (IsTorchLibrary(reinterpret_cast<const char*>(strings + entry->d_un.d_val))) return true;
  }
  return false;
}

std::string FileOf(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fname : "";
}

struct Found {
  unsigned long long adds = 0;  // the loader's count at the last query; it is never 0
  unsigned long long subs = 0;
  std::vector<std::string> files;
};

struct Search {
  Found* found;
  std::string own_folder;
  std::string torch_folder;
  bool fresh = false;
};

int Visit(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (!search.fresh) {
    if (search.found->adds == info->dlpi_adds && search.found->subs == info->dlpi_subs) return 1;
    *search.found = {info->dlpi_adds, info->dlpi_subs, {}};
    search.fresh = true;
  }
  if (!NeedsTorch(*info)) return 0;
  std::string file = info->dlpi_name;
  if (file.empty()) file = std::filesystem::read_symlink("/proc/self/exe").string();
  if (!file.starts_with(search.own_folder) && !file.starts_with(search.torch_folder)) {
    search.found->files.push_back(std::move(file));
  }
  return 0;
}

}  // namespace

std::vector<std::string> ExtensionLibraries() {
  static std::mutex mutex;
  static Found found;
  const std::lock_guard lock(mutex);
  // A symbol of libtorch_python.so leads to PyTorch's folder.
  const std::string torch = FileOf(reinterpret_cast<const void*>(&THPGeneratorClass));
  // The path is .../torch/lib/libtorch_python.so; torch/_C.so is beside that folder.
  const std::string own = FileOf(reinterpret_cast<const void*>(&ExtensionLibraries));
  Search search{&found, std::filesystem::path(own).parent_path().string() + "/",
                std::filesystem::path(torch).parent_path().parent_path().string() + "/"};
  dl_iterate_phdr(&Visit, &search);
  std::sort(found.files.begin(), found.files.end());
  return found.files;
}

}  // namespace hpu::torch_backend
