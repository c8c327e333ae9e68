// Finds graph objects by handle, or refuses with the status that the contract names.
#pragma once

#include "emulator/api/entry.h"

namespace hpu::emulator {

// `body` is a synStatus(const std::shared_ptr<Graph>&). A null handle gives `null_status`, an
// unknown one synFail.
template <typename Body>
synStatus GraphCall(synGraphHandle handle, Body&& body,
                    synStatus null_status = synInvalidArgument) {
  return RunCall(true, [&]() -> synStatus {
    if (handle == nullptr) return Fail(null_status, "the graph handle is null");
    const std::shared_ptr<Graph> graph = Library::Get().graphs().Find(handle);
    if (graph == nullptr) return Fail(synFail, "this is not a graph, or it was destroyed");
    return body(graph);
  });
}

// `body` is a synStatus(Tensor&).
template <typename Body>
synStatus TensorCall(synTensor handle, Body&& body) {
  return RunCall(true, [&]() -> synStatus {
    const std::shared_ptr<Tensor> tensor = Library::Get().tensors().Find(handle);
    if (tensor == nullptr) return Fail(synInvalidArgument, "this is not a tensor");
    return body(*tensor);
  });
}

// Does the same for a tensor whose properties may still change.
template <typename Body>
synStatus TensorSetCall(synTensor handle, Body&& body) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    if (tensor.locked) {
      return Fail(synObjectAlreadyInitialized, "tensor ", tensor.name,
                  " is used by a node: its properties are fixed");
    }
    return body(tensor);
  });
}

// `body` is a synStatus(LoadedRecipe&).
template <typename Body>
synStatus RecipeCall(synRecipeHandle handle, Body&& body) {
  return RunCall(true, [&]() -> synStatus {
    const std::shared_ptr<LoadedRecipe> recipe = Library::Get().recipes().Find(handle);
    if (recipe == nullptr) return Fail(synInvalidArgument, "this is not a recipe");
    return body(*recipe);
  });
}

}  // namespace hpu::emulator
