#include "graph_compiler/codegen/object_image.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cstring>
#include <limits>
#include <map>

#include "graph_compiler/codegen/size_symbols.h"

namespace hpu::graph_compiler {
namespace {

constexpr uint64_t kMinAlignment = 16;

absl::Status FromLlvm(llvm::Error error, const char* what) {
  return Internal(what, ": ", llvm::toString(std::move(error)));
}

bool IsExecutable(const llvm::object::ELFSectionRef& section) {
  return (section.getFlags() & llvm::ELF::SHF_EXECINSTR) != 0;
}

class Layout {
 public:
  Layout(const llvm::object::ELF64LEObjectFile& object, std::span<const uint32_t> sizes)
      : object_(object), sizes_(sizes) {}

  // Places code first, then constants, both in the order of the object.
  absl::Status Place() {
    for (const bool code : {true, false}) {
      for (const llvm::object::ELFSectionRef section : object_.sections()) {
        if ((section.getFlags() & llvm::ELF::SHF_ALLOC) == 0 || section.getSize() == 0) continue;
        if (IsExecutable(section) != code) continue;
        RETURN_IF_ERROR(Append(section));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Relocate() {
    for (const llvm::object::SectionRef relocations : object_.sections()) {
      auto target = relocations.getRelocatedSection();
      if (!target) return FromLlvm(target.takeError(), "relocated section");
      if (*target == object_.section_end()) continue;
      const auto place = offsets_.find((*target)->getIndex());
      if (place == offsets_.end()) continue;  // debug or note section
      for (const llvm::object::ELFRelocationRef relocation : relocations.relocations()) {
        RETURN_IF_ERROR(Apply(relocation, place->second));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> SymbolOffset(const llvm::object::SymbolRef& symbol) const {
    auto name = symbol.getName();
    if (!name) return FromLlvm(name.takeError(), "symbol name");
    auto section = symbol.getSection();
    if (!section) return FromLlvm(section.takeError(), "symbol section");
    if (*section == object_.section_end()) {
      return Internal("generated code needs the external symbol '", name->str(), "'");
    }
    const auto place = offsets_.find((*section)->getIndex());
    if (place == offsets_.end())
      return Internal("symbol '", name->str(), "' in a section left out");
    auto value = symbol.getValue();
    if (!value) return FromLlvm(value.takeError(), "symbol value");
    return place->second + *value;
  }

  Bytes& code() { return code_; }

 private:
  absl::Status Append(const llvm::object::ELFSectionRef& section) {
    auto name = section.getName();
    if (!name) return FromLlvm(name.takeError(), "section name");
    if ((section.getFlags() & llvm::ELF::SHF_WRITE) != 0 || section.isBSS()) {
      return Internal("generated code has the writable section '", name->str(), "'");
    }
    auto contents = section.getContents();
    if (!contents) return FromLlvm(contents.takeError(), "section contents");
    const uint64_t alignment = std::max<uint64_t>(section.getAlignment().value(), kMinAlignment);
    if (alignment > kImageAlignment) {
      return Internal("generated code has a section aligned to ", alignment, " bytes");
    }
    code_.resize((code_.size() + alignment - 1) / alignment * alignment, 0);
    offsets_[section.getIndex()] = code_.size();
    code_.insert(code_.end(), contents->bytes_begin(), contents->bytes_end());
    return absl::OkStatus();
  }

  absl::Status Apply(const llvm::object::ELFRelocationRef& relocation, uint64_t section_offset) {
    const uint64_t type = relocation.getType();
    auto name = relocation.getSymbol()->getName();
    if (!name) return FromLlvm(name.takeError(), "symbol name");
    if (const auto number = SizeNumberOf(*name)) {
      return ApplySize(relocation, section_offset, *number);
    }
    if (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32) {
      return Internal("generated code has a relocation of type ", type, ", not PC-relative");
    }
    ASSIGN_OR_RETURN(const uint64_t symbol, SymbolOffset(*relocation.getSymbol()));
    auto addend = relocation.getAddend();
    if (!addend) return FromLlvm(addend.takeError(), "relocation addend");
    const uint64_t place = section_offset + relocation.getOffset();
    if (place + 4 > code_.size()) return Internal("relocation outside its section");
    const auto value =
        static_cast<int32_t>(static_cast<int64_t>(symbol) + *addend - static_cast<int64_t>(place));
    std::memcpy(code_.data() + place, &value, sizeof(value));
    return absl::OkStatus();
  }

  absl::Status ApplySize(const llvm::object::ELFRelocationRef& relocation, uint64_t section_offset,
                         size_t number) {
    if (number >= sizes_.size()) return Internal("generated code needs size ", number);
    auto addend = relocation.getAddend();
    if (!addend) return FromLlvm(addend.takeError(), "relocation addend");
    const int64_t value = int64_t{sizes_[number]} + *addend;
    const uint64_t place = section_offset + relocation.getOffset();
    const uint64_t type = relocation.getType();
    const bool is_wide = type == llvm::ELF::R_X86_64_64;
    const size_t bytes = is_wide ? sizeof(int64_t) : sizeof(int32_t);
    if (place + bytes > code_.size()) return Internal("relocation outside its section");
    if (!is_wide && type != llvm::ELF::R_X86_64_32 && type != llvm::ELF::R_X86_64_32S) {
      return Internal("generated code has a relocation of type ", type, " to a size");
    }
    const int64_t least = type == llvm::ELF::R_X86_64_32 ? 0 : std::numeric_limits<int32_t>::min();
    if (!is_wide && (value < least || value > std::numeric_limits<int32_t>::max())) {
      return Internal("generated code adds ", *addend, " to size ", sizes_[number]);
    }
    std::memcpy(code_.data() + place, &value, bytes);
    return absl::OkStatus();
  }

  const llvm::object::ELF64LEObjectFile& object_;
  const std::span<const uint32_t> sizes_;
  std::map<uint64_t, uint64_t> offsets_;  // section index -> offset in the image
  Bytes code_;
};

}  // namespace

absl::StatusOr<KernelModule::Image> LayOutObject(std::span<const char> object,
                                                 const std::vector<std::string>& kernels,
                                                 std::span<const uint32_t> sizes) {
  auto file = llvm::object::ELF64LEObjectFile::create(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernels"));
  if (!file) return FromLlvm(file.takeError(), "generated object");
  Layout layout(*file, sizes);
  RETURN_IF_ERROR(layout.Place());
  RETURN_IF_ERROR(layout.Relocate());

  std::map<std::string, uint32_t> wanted;
  for (size_t i = 0; i < kernels.size(); ++i) wanted[kernels[i]] = static_cast<uint32_t>(i);
  KernelModule::Image image;
  image.entry_offsets.resize(kernels.size());
  size_t found = 0;
  for (const llvm::object::SymbolRef symbol : file->symbols()) {
    auto name = symbol.getName();
    if (!name) return FromLlvm(name.takeError(), "symbol name");
    const auto kernel = wanted.find(name->str());
    if (kernel == wanted.end()) continue;
    ASSIGN_OR_RETURN(const uint64_t offset, layout.SymbolOffset(symbol));
    image.entry_offsets[kernel->second] = static_cast<uint32_t>(offset);
    ++found;
  }
  if (found != kernels.size()) return Internal("generated object lacks a kernel symbol");
  image.code = std::move(layout.code());
  return image;
}

}  // namespace hpu::graph_compiler
