#include "emulator/kernels/kernel_libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <span>
#include <sstream>
#include <string_view>

namespace hpu::emulator {
namespace {

std::span<const HpuKernel> KernelsOf(const KernelLibrary& library) {
  if (library.library == nullptr) return {};
  return {library.library->kernels, library.library->kernel_count};
}

std::string ProblemOf(const HpuKernelLibrary& library) {
  std::ostringstream text;
  if (library.abi_version != HPU_KERNEL_ABI_VERSION) {
    text << "has ABI version " << library.abi_version << " of hpu_custom_kernel.h, the device has "
         << HPU_KERNEL_ABI_VERSION << ": build it again";
    return text.str();
  }
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    const HpuKernel& kernel = library.kernels[i];
    if (kernel.guid == nullptr || kernel.version == 0 || kernel.run == nullptr) {
      text << "entry " << i << " of its table lacks a guid, a version of at least 1, or run()";
      return text.str();
    }
  }
  return "";
}

KernelLibrary OpenLibrary(const std::string& path) {
  KernelLibrary opened{.path = path};
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    opened.problem = std::string("cannot be opened: ") + dlerror();
    return opened;
  }
  const auto table =
      reinterpret_cast<HpuKernelLibraryFunction>(dlsym(handle, HPU_KERNEL_LIBRARY_SYMBOL));
  if (table == nullptr) {
    opened.problem = "has no function " HPU_KERNEL_LIBRARY_SYMBOL
                     " (kernels for the card's TPC do not run on the emulated device)";
    return opened;
  }
  const HpuKernelLibrary* library = table();
  opened.problem =
      library == nullptr ? HPU_KERNEL_LIBRARY_SYMBOL " returned null" : ProblemOf(*library);
  if (opened.problem.empty()) opened.library = library;
  return opened;
}

}  // namespace

KernelLibraries& KernelLibraries::Get() {
  // It is never destroyed, because streams may launch until the process ends.
  static auto* libraries = new KernelLibraries;
  return *libraries;
}

std::shared_ptr<const KernelLibraries::Opened> KernelLibraries::Open() {
  const char* value = std::getenv(kKernelPathVariable);
  const std::string_view path = value == nullptr ? "" : value;
  std::lock_guard lock(mutex_);
  if (path == opened_->path) return opened_;
  auto opened = std::make_shared<Opened>();
  opened->path = path;
  std::istringstream parts(opened->path);
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) opened->libraries.push_back(OpenLibrary(part));
  }
  opened_ = std::move(opened);
  return opened_;
}

const HpuKernel* KernelLibraries::Find(const std::string& guid) {
  const std::shared_ptr<const Opened> opened = Open();
  for (const KernelLibrary& library : opened->libraries) {
    for (const HpuKernel& kernel : KernelsOf(library)) {
      if (guid == kernel.guid) return &kernel;
    }
  }
  return nullptr;
}

absl::StatusOr<const HpuKernel*> KernelLibraries::Find(const std::string& guid, uint32_t version) {
  const std::shared_ptr<const Opened> opened = Open();
  bool has_guid = false;
  for (const KernelLibrary& library : opened->libraries) {
    for (const HpuKernel& kernel : KernelsOf(library)) {
      if (guid != kernel.guid) continue;
      if (kernel.version == version) return &kernel;
      has_guid = true;
    }
  }
  const char* what = has_guid ? " is there in other versions only. " : " is not there. ";
  return Error(has_guid ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kNotFound,
               "custom kernel ", guid, " of version ", version, what, Describe(*opened));
}

std::string KernelLibraries::Describe(const Opened& opened) {
  if (opened.libraries.empty()) {
    return std::string(kKernelPathVariable) +
           " names no library: set it to the library of the kernel (docs/custom_kernels.md)";
  }
  std::ostringstream text;
  text << kKernelPathVariable << " is " << opened.path << ':';
  for (const KernelLibrary& library : opened.libraries) {
    text << "\n  " << library.path << ' ';
    if (library.library == nullptr) {
      text << library.problem;
      continue;
    }
    text << "has";
    for (const HpuKernel& kernel : KernelsOf(library)) {
      text << ' ' << kernel.guid << " (version " << kernel.version << ')';
    }
  }
  return text.str();
}

std::string KernelLibraries::List() {
  std::ostringstream text;
  const std::shared_ptr<const Opened> opened = Open();
  for (const KernelLibrary& library : opened->libraries) {
    for (const HpuKernel& kernel : KernelsOf(library)) {
      text << kernel.guid << ' ' << kernel.version << '\n';
    }
  }
  return text.str();
}

}  // namespace hpu::emulator
