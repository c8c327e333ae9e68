// This header says what programs call process groups.
//
// PyTorch names a group by a count of all groups that the ranks have made, or by a hash of its
// ranks. So groups that do the same in two replicas of a model differ by name, and their ranks
// could not share programs. A captured graph, and therefore its program, calls a group by its place
// among the groups that this process has joined instead: "hpu_group_1" is the second one.
//
// All functions are thread-safe.
#pragma once

#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"
#include "graph/argument.h"

namespace hpu::torch_backend {

// Returns whether the argument of an operator is a process group's name.
inline bool IsGroup(const c10::Argument& declared) { return declared.name() == "group_name"; }

// Gives the group with this name of PyTorch's the next place, unless it has one. It keeps the place
// as long as the process lives, because PyTorch uses names again.
void NumberGroup(const std::string& name);

// Returns the groups' names in the order of their places.
std::vector<std::string> NumberedGroups();

// Returns what programs call the group: its name if it has no place.
std::string GroupInPrograms(const std::string& name);

// Writes what programs call the groups among the arguments of a call.
void CallGroupsByPlace(const c10::FunctionSchema& schema, std::vector<Argument>* args);

// Returns the name in this process of what a program calls a group. Throws if no group of this
// process has that place.
std::string GroupInProcess(const std::string& text);

}  // namespace hpu::torch_backend
