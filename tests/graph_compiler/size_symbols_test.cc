// Kernels that differ in sizes alone share one object, and compute what each size says.
#include "graph_compiler/codegen/size_symbols.h"

#include <llvm/Support/raw_ostream.h>

#include "graph_compiler/codegen/ir_loops.h"
#include "graph_compiler/codegen/object_cache.h"
#include "tests/graph_compiler/kernel_runner.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Emit = std::function<void(Builder&, const KernelFrame&, Value*, int64_t size)>;

absl::StatusOr<KernelModule::Image> Make(const Emit& emit, int64_t size,
                                         SizesAs sizes_as = SizesAs::kSymbols) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  module.AddKernel(
      "k", [&](Builder& b, const KernelFrame& frame, Value* task) { emit(b, frame, task, size); });
  return module.Finish(sizes_as);
}

// Runs task 5 of the kernel, which gets the number `given` and stores its result.
int64_t ResultOf(const KernelModule::Image& image, int64_t given) {
  const MappedImage mapped(image.code);
  int64_t out = -1;
  mapped.Run(image.entry_offsets[0], {&out, &given}, 5, 6);
  return out;
}

void Store(Builder& b, const KernelFrame& frame, Value* value) {
  b.CreateStore(value, frame.Operand(b, 0));
}

Value* Given(Builder& b, const KernelFrame& frame) {
  return b.CreateLoad(b.getInt64Ty(), frame.Operand(b, 1));
}

uint64_t Missing() { return ObjectCache::OfProcess().counts().missing; }

struct Case {
  const char* name;
  Emit emit;
  std::function<int64_t(int64_t given, int64_t size)> expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SizeSymbolsTest : public testing::TestWithParam<Case> {};

TEST_P(SizeSymbolsTest, OneObjectServesEverySize) {
  const uint64_t before = Missing();
  for (const int64_t size : {1500, 77, 300, 1000000007}) {
    const auto image = Make(GetParam().emit, size);
    ASSERT_TRUE(image.ok()) << image.status();
    const auto plain = Make(GetParam().emit, size, SizesAs::kNumbers);
    ASSERT_TRUE(plain.ok()) << plain.status();
    for (const int64_t given : {0, 76, 78, 1499, 5000}) {
      EXPECT_EQ(ResultOf(*image, given), GetParam().expected(given, size)) << given << ", " << size;
      EXPECT_EQ(ResultOf(*plain, given), GetParam().expected(given, size)) << given << ", " << size;
    }
  }
  EXPECT_EQ(Missing() - before, 1u + 4u);  // the four with numbers are objects of their own
}

const Case kCases[] = {
    {"less",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Value* less = b.CreateICmpSLT(Given(b, f), b.getInt64(size));
       Store(b, f, b.CreateZExt(less, b.getInt64Ty()));
     },
     [](int64_t given, int64_t size) { return int64_t{given < size}; }},
    {"product_and_sum",
     [](Builder& b, const KernelFrame& f, Value* task, int64_t size) {
       Value* product = b.CreateMul(Given(b, f), b.getInt64(size));
       Store(b, f, b.CreateAdd(product, task));
     },
     [](int64_t given, int64_t size) { return given * size + 5; }},
    {"difference",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Store(b, f, b.CreateAdd(Given(b, f), b.getInt64(-size)));
     },
     [](int64_t given, int64_t size) { return given - size; }},
    {"displacement",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Value* address = b.CreateIntToPtr(Given(b, f), b.getPtrTy());
       address = b.CreateConstGEP1_64(b.getInt8Ty(), address, static_cast<uint64_t>(size));
       Store(b, f, b.CreatePtrToInt(address, b.getInt64Ty()));
     },
     [](int64_t given, int64_t size) { return given + size; }},
    {"quotient",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Store(b, f, b.CreateUDiv(b.CreateAdd(Given(b, f), b.getInt64(3)), b.getInt64(size)));
     },
     [](int64_t given, int64_t size) { return (given + 3) / size; }},
    {"difference_from_the_size",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Store(b, f, b.CreateSub(b.getInt64(size), Given(b, f)));
     },
     [](int64_t given, int64_t size) { return size - given; }},
    {"smaller_of_both",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Store(b, f, b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, Given(b, f), b.getInt64(size)));
     },
     [](int64_t given, int64_t size) { return std::min(given, size); }},
    // LLVM compares with the sum of the size and -16, which it computes by a lea relative to rip.
    {"sum_compared",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Value* sum = b.CreateNSWAdd(Given(b, f), b.getInt64(16));
       Value* less = b.CreateICmpSLT(sum, b.getInt64(size));
       Value* both = b.CreateSelect(less, sum, b.getInt64(size));
       Store(b, f, both);
     },
     [](int64_t given, int64_t size) { return std::min(given + 16, size); }},
    {"reciprocal",
     [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
       Value* number = b.CreateSIToFP(Given(b, f), b.getFloatTy());
       Value* factor = llvm::ConstantFP::get(b.getFloatTy(), 1.0 / static_cast<double>(size));
       Value* bits = b.CreateBitCast(b.CreateFMul(number, factor), b.getInt32Ty());
       Store(b, f, b.CreateZExt(bits, b.getInt64Ty()));
     },
     [](int64_t given, int64_t size) {
       const float factor = static_cast<float>(1.0 / static_cast<double>(size));
       return int64_t{std::bit_cast<uint32_t>(static_cast<float>(given) * factor)};
     }},
};

INSTANTIATE_TEST_SUITE_P(Instructions, SizeSymbolsTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SizeSymbolsLimitTest, CodeThatHasNoPlaceForASizeHasTheNumber) {
  // The displacement is the sum of the size and 16, which must fit into 32 bits.
  const Emit emit = [](Builder& b, const KernelFrame& f, Value*, int64_t size) {
    Value* address = b.CreateIntToPtr(Given(b, f), b.getPtrTy());
    address = b.CreateConstGEP1_64(b.getInt8Ty(), address, static_cast<uint64_t>(size));
    address = b.CreateConstGEP1_64(b.getInt8Ty(), address, 16);
    Store(b, f, b.CreatePtrToInt(address, b.getInt64Ty()));
  };
  const uint64_t before = Missing();
  for (const int64_t size : {int64_t{1500}, (int64_t{1} << 31) - 5}) {
    const auto image = Make(emit, size);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(ResultOf(*image, 1000), 1016 + size);
  }
  EXPECT_EQ(Missing() - before, 2u);
}

TEST(SizeSymbolsLimitTest, NumbersThatAreNoSizesStay) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  module.AddKernel("k", [&](Builder& b, const KernelFrame& frame, Value* task) {
    Value* given = Given(b, frame);
    EmitFor(b, b.getInt64(0), given, b.getInt64(1), [&](Value* i) {
      Value* sum = b.CreateAdd(i, b.getInt64(48));             // a lane's offset
      sum = b.CreateAdd(sum, b.CreateMul(i, b.getInt64(64)));  // a shift
      sum = b.CreateAdd(sum, b.CreateAnd(i, b.getInt64(1001)));
      sum = b.CreateAdd(sum, b.CreateMul(i, b.getInt64(int64_t{1} << 31 | 1)));
      Store(b, frame, b.CreateAdd(sum, task));
    });
  });
  EXPECT_TRUE(TakeSizes(module.llvm_module()).empty());
}

TEST(SizeSymbolsLimitTest, NumbersThatAreEqualByChanceAreTwo) {
  const auto make = [](int64_t factor, int64_t limit) {
    const Emit emit = [=](Builder& b, const KernelFrame& f, Value*, int64_t) {
      Value* product = b.CreateMul(Given(b, f), b.getInt64(factor));
      Value* least = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, Given(b, f), b.getInt64(limit));
      Store(b, f, b.CreateSub(product, least));
    };
    return Make(emit, 0);
  };
  const uint64_t before = Missing();
  for (const auto& [factor, limit] : std::vector<std::pair<int, int>>{{512, 512}, {8, 900}}) {
    const auto image = make(factor, limit);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(ResultOf(*image, 1000), 1000 * factor - limit);
  }
  EXPECT_EQ(Missing() - before, 1u);
}

TEST(SizeSymbolsLimitTest, SizesCanBePutBack) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  module.AddKernel("k", [&](Builder& b, const KernelFrame& frame, Value*) {
    Store(b, frame, b.CreateMul(Given(b, frame), b.getInt64(1500)));
  });
  const std::string before = module.ToText();
  const std::vector<uint32_t> sizes = TakeSizes(module.llvm_module());
  EXPECT_EQ(sizes, std::vector<uint32_t>{1500});
  EXPECT_NE(module.ToText().find("ptrtoint (ptr @size0 to i64)"), std::string::npos);
  PutSizesBack(module.llvm_module(), sizes);
  EXPECT_EQ(module.ToText(), before);
}

TEST(ObjectCacheTest, TheLeastRecentlyUsedGoesFirst) {
  ObjectCache cache(100);
  const auto object = [](size_t bytes) { return std::make_shared<std::vector<char>>(bytes); };
  const Digest a{1};
  const Digest b{2};
  const Digest c{3};
  EXPECT_EQ(cache.Find(a), nullptr);
  cache.Keep(a, object(40));
  cache.Keep(b, object(40));
  EXPECT_NE(cache.Find(a), nullptr);
  cache.Keep(c, object(50));  // drops b
  EXPECT_EQ(cache.Find(b), nullptr);
  EXPECT_NE(cache.Find(a), nullptr);
  EXPECT_NE(cache.Find(c), nullptr);
  EXPECT_EQ(cache.counts().bytes, 90u);
  cache.Keep(b, object(101));  // more than there is room for
  EXPECT_EQ(cache.Find(b), nullptr);
  EXPECT_EQ(cache.counts().bytes, 90u);
}

}  // namespace
}  // namespace hpu::graph_compiler
