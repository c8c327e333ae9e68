// The formats and semantics are from the Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1 chapter 18 ("Programming with Intel AMX") and volume 2 (LDTILECFG, TILELOADD,
// TILESTORED, TILEZERO, TILERELEASE, TDPBF16PS).
#include "tests/contraction/amx_interpreter.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "recipe/isa.h"

namespace hpu::graph_compiler {
namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  uint8_t data[kRows][kRowBytes] = {};
};

struct TileState {
  bool configured = false;
  Tile tiles[kTiles];
};

thread_local TileState state;
std::atomic<long> products{0};

[[noreturn]] void Refuse(const char* what) {
  std::fprintf(stderr, "AMX interpreter: %s\n", what);
  std::abort();
}

void Require(bool condition, const char* what) {
  if (!condition) Refuse(what);
}

// A three-byte VEX instruction.
struct Instruction {
  enum Prefix : uint8_t { kNone, k66, kF3, kF2 };
  uint8_t opcode = 0;
  Prefix prefix = kNone;
  int reg = 0, second = 0, rm = 0;  // ModRM.reg, VEX.vvvv, ModRM.rm
  bool is_memory = false;
  // The parts of the memory operand: base plus displacement, and the scaled index.
  uint64_t base = 0, index = 0;
  int length = 0;
};

uint64_t RegisterValue(const ucontext_t& context, int number) {
  constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(context.uc_mcontext.gregs[kOrder[number]]);
}

Instruction Decode(const uint8_t* code, const ucontext_t& context) {
  Require(code[0] == 0xC4 && (code[1] & 0x1F) == 2 && (code[2] & 0x84) == 0,
          "an illegal instruction that is not of AMX");
  Instruction result;
  const int high_reg = (code[1] & 0x80) != 0 ? 0 : 8;
  const int high_index = (code[1] & 0x40) != 0 ? 0 : 8;
  const int high_base = (code[1] & 0x20) != 0 ? 0 : 8;
  result.second = ~(code[2] >> 3) & 15;
  result.prefix = static_cast<Instruction::Prefix>(code[2] & 3);
  result.opcode = code[3];
  const uint8_t modrm = code[4];
  const int mode = modrm >> 6;
  result.reg = ((modrm >> 3) & 7) + high_reg;
  result.rm = (modrm & 7) + high_base;
  result.is_memory = mode != 3;
  const uint8_t* next = code + 5;
  if (result.is_memory) {
    int base = result.rm;
    bool has_base = true;
    if ((modrm & 7) == 4) {
      const uint8_t sib = *next++;
      base = (sib & 7) + high_base;
      has_base = (sib & 7) != 5 || mode != 0;
      const int index = ((sib >> 3) & 7) + high_index;
      if (index != 4) result.index = RegisterValue(context, index) << (sib >> 6);
    }
    int32_t displacement = 0;
    const bool relative = (modrm & 7) == 5 && mode == 0;
    if (mode == 1) displacement = static_cast<int8_t>(*next++);
    if (mode == 2 || relative || !has_base) {
      std::memcpy(&displacement, next, 4);
      next += 4;
    }
    if (relative) {
      result.base = reinterpret_cast<uint64_t>(next);
    } else if (has_base) {
      result.base = RegisterValue(context, base);
    }
    result.base += static_cast<uint64_t>(int64_t{displacement});
  }
  result.length = static_cast<int>(next - code);
  return result;
}

Tile& TileOf(int number) {
  Require(state.configured, "a tile is used before LDTILECFG");
  Require(number < kTiles && state.tiles[number].rows > 0, "a tile is used that has no shape");
  return state.tiles[number];
}

void LoadConfiguration(const uint8_t* bytes) {
  Require(bytes[0] == 1 && bytes[1] == 0, "LDTILECFG of another palette or start row");
  for (int i = 2; i < 16; ++i) Require(bytes[i] == 0, "LDTILECFG with reserved bytes");
  state = {};
  state.configured = true;
  for (int i = 0; i < 16; ++i) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * i, 2);
    const int rows = bytes[48 + i];
    Require(row_bytes <= kRowBytes && rows <= kRows && (row_bytes == 0) == (rows == 0),
            "LDTILECFG of an impossible shape");
    Require(i < kTiles || rows == 0, "LDTILECFG of more than eight tiles");
    if (i < kTiles) state.tiles[i].rows = rows, state.tiles[i].row_bytes = row_bytes;
  }
}

void Move(const Instruction& in, bool store) {
  Tile& tile = TileOf(in.reg);
  for (int row = 0; row < tile.rows; ++row) {
    auto* memory = reinterpret_cast<uint8_t*>(in.base + in.index * static_cast<uint64_t>(row));
    if (store) {
      std::memcpy(memory, tile.data[row], tile.row_bytes);
    } else {
      std::memset(tile.data[row], 0, kRowBytes);
      std::memcpy(tile.data[row], memory, tile.row_bytes);
    }
  }
}

float At(const Tile& tile, int row, int column) {
  float value;
  std::memcpy(&value, &tile.data[row][column * 4], 4);
  return value;
}

// Returns the bf16 number in `column` of a row.
float NarrowAt(const Tile& tile, int row, int column) {
  uint16_t bits;
  std::memcpy(&bits, &tile.data[row][column * 2], 2);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void Multiply(const Instruction& in) {
  Require(in.reg != in.rm && in.reg != in.second && in.rm != in.second, "TDPBF16PS of equal tiles");
  Tile& sums = TileOf(in.reg);
  const Tile& a = TileOf(in.rm);
  const Tile& b = TileOf(in.second);
  Require(a.rows == sums.rows && b.row_bytes == sums.row_bytes && a.row_bytes == 4 * b.rows,
          "TDPBF16PS of shapes that do not fit");
  products.fetch_add(1, std::memory_order_relaxed);
  for (int row = 0; row < sums.rows; ++row) {
    for (int pair = 0; pair < b.rows; ++pair) {
      for (int column = 0; column < sums.row_bytes / 4; ++column) {
        float sum = At(sums, row, column);
        sum += NarrowAt(a, row, 2 * pair) * NarrowAt(b, pair, 2 * column);
        sum += NarrowAt(a, row, 2 * pair + 1) * NarrowAt(b, pair, 2 * column + 1);
        std::memcpy(&sums.data[row][column * 4], &sum, 4);
      }
    }
  }
}

void Execute(const Instruction& in) {
  const auto is = [&](uint8_t opcode, Instruction::Prefix prefix, bool memory) {
    return in.opcode == opcode && in.prefix == prefix && in.is_memory == memory;
  };
  if (is(0x49, Instruction::kNone, true)) {
    LoadConfiguration(reinterpret_cast<const uint8_t*>(in.base + in.index));
  } else if (is(0x49, Instruction::kNone, false)) {
    state = {};
  } else if (is(0x49, Instruction::kF2, false)) {
    std::memset(TileOf(in.reg).data, 0, sizeof(Tile::data));
  } else if (is(0x4B, Instruction::kF2, true)) {
    Move(in, false);
  } else if (is(0x4B, Instruction::kF3, true)) {
    Move(in, true);
  } else if (is(0x5C, Instruction::kF3, false)) {
    Multiply(in);
  } else {
    Refuse("an instruction that it does not know");
  }
}

void OnIllegalInstruction(int, siginfo_t*, void* raw) {
  auto* context = static_cast<ucontext_t*>(raw);
  greg_t& at = context->uc_mcontext.gregs[REG_RIP];
  const Instruction in = Decode(reinterpret_cast<const uint8_t*>(at), *context);
  Execute(in);
  at += in.length;
}

}  // namespace

void InstallAmxInterpreter() {
  if (HostIsaLevel() == IsaLevel::kV4Amx) return;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGILL, &action, nullptr);
}

long AmxProductsInterpreted() { return products.load(std::memory_order_relaxed); }

}  // namespace hpu::graph_compiler
