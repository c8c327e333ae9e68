#include "backend/runtime/host_memory.h"

#include "tests/runtime/device_environment.h"
#include "tests/runtime/hand_made_recipe.h"

namespace hpu::runtime {
namespace {

TEST(HostAllocator, FindsBlocksByAnyAddressInside) {
  HostAllocator& allocator = TestDevice().host_allocator();
  HostBlock* block = *allocator.Allocate(1000);
  auto* bytes = static_cast<char*>(block->data);
  EXPECT_EQ(block->bytes, 1024u);
  EXPECT_EQ(allocator.Find(bytes), block);
  EXPECT_EQ(allocator.Find(bytes + 1023), block);
  EXPECT_NE(allocator.Find(bytes + 1024), block);
  int on_stack = 0;
  EXPECT_EQ(allocator.Find(&on_stack), nullptr);
  allocator.Free(block);
  EXPECT_EQ(allocator.Find(bytes), nullptr);
}

TEST(HostAllocator, ReusesFreedBlocks) {
  HostAllocator& allocator = TestDevice().host_allocator();
  HostBlock* block = *allocator.Allocate(3 << 20);
  allocator.Free(block);
  EXPECT_EQ(*allocator.Allocate(4 << 20), block);
  allocator.Free(block);
}

TEST(HostAllocator, BlockWithQueuedCopiesIsNotReused) {
  HostAllocator& allocator = TestDevice().host_allocator();
  HostBlock* block = *allocator.Allocate(1 << 16);
  HostBlock* other = nullptr;
  {
    Gate gate(TestStream(1));
    allocator.RecordStream(block, TestStream(1));
    allocator.Free(block);
    other = *allocator.Allocate(1 << 16);
    EXPECT_NE(other, block);
  }
  EXPECT_EQ(*allocator.Allocate(1 << 16), block);
  allocator.Free(block);
  allocator.Free(other);
}

}  // namespace
}  // namespace hpu::runtime
