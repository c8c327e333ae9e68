#include "recipe/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace hpu {
namespace {

constexpr std::pair<IsaLevel, std::string_view> kNames[] = {
    {IsaLevel::kV2, "x86-64-v2"},        {IsaLevel::kV3, "x86-64-v3"},
    {IsaLevel::kV4, "x86-64-v4"},        {IsaLevel::kV4Bf16, "x86-64-v4-bf16"},
    {IsaLevel::kV4Amx, "x86-64-v4-amx"},
};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers Cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_max(leaf & 0x80000000u, nullptr) < leaf) return r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  return r;
}

bool HasAll(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

uint64_t EnabledStates() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux gives the state of AMX tiles only to processes that ask for it; threads inherit it.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::optional<IsaLevel> Detect() {
  const Registers basic = Cpuid(1, 0);
  const Registers features = Cpuid(7, 0);
  const Registers extended = Cpuid(0x80000001u, 0);
  const Registers features1 = Cpuid(7, 1);
  // The bits are SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF.
  constexpr uint32_t kV2 =
      (1u << 0) | (1u << 9) | (1u << 13) | (1u << 19) | (1u << 20) | (1u << 23);
  if (!HasAll(basic.ecx, kV2) || !HasAll(extended.ecx, 1u << 0)) return std::nullopt;
  // The bits are FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; state of SSE and AVX.
  constexpr uint32_t kV3Basic = (1u << 12) | (1u << 22) | (1u << 27) | (1u << 28) | (1u << 29);
  constexpr uint32_t kV3Features = (1u << 3) | (1u << 5) | (1u << 8);
  if (!HasAll(basic.ecx, kV3Basic) || !HasAll(features.ebx, kV3Features) ||
      !HasAll(extended.ecx, 1u << 5)) {
    return IsaLevel::kV2;
  }
  const uint64_t states = EnabledStates();
  if ((states & 0x6) != 0x6) return IsaLevel::kV2;
  // The bits are AVX512 F, DQ, CD, BW, VL; state of mask and high registers.
  constexpr uint32_t kV4 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30) | (1u << 31);
  if (!HasAll(features.ebx, kV4) || (states & 0xE0) != 0xE0) return IsaLevel::kV3;
  // No CPU is known that has AVX512 BF16 without VNNI, or AMX BF16 without AMX INT8.
  constexpr uint32_t kAvx512Bf16 = 1u << 5;
  constexpr uint32_t kAvx512Vnni = 1u << 11;
  if (!HasAll(features1.eax, kAvx512Bf16) || !HasAll(features.ecx, kAvx512Vnni)) {
    return IsaLevel::kV4;
  }
  // The bits are AMX BF16, TILE, INT8; state of tile configuration and data.
  constexpr uint32_t kAmx = (1u << 22) | (1u << 24) | (1u << 25);
  constexpr uint64_t kTileStates = (1u << 17) | (1u << 18);
  const bool has_tiles = HasAll(features.edx, kAmx) && (states & kTileStates) == kTileStates;
  return has_tiles && MayUseTiles() ? IsaLevel::kV4Amx : IsaLevel::kV4Bf16;
}

}  // namespace

std::optional<IsaLevel> HostIsaLevel() {
  static const std::optional<IsaLevel> level = Detect();
  return level;
}

std::string_view IsaLevelName(IsaLevel level) {
  for (const auto& [known, name] : kNames) {
    if (known == level) return name;
  }
  return "unknown";
}

std::optional<IsaLevel> IsaLevelFromName(std::string_view name) {
  for (const auto& [level, known] : kNames) {
    if (known == name) return level;
  }
  return std::nullopt;
}

}  // namespace hpu
