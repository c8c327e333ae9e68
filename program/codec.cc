#include <concepts>
#include <type_traits>
#include <utility>

#include "base/container.h"
#include "program/program.h"

namespace hpu {
namespace {

constexpr ContainerKind kKind{
    {'H', 'P', 'U', 'P', 'R', 'O', 'G', '\0'}, kProgramVersion, "program"};

// Encoder and Decoder visit the same descriptions (`Fields` below, Describe of the steps), so that
// one reads exactly what the other writes. This maps the meaning of a step's fields to their
// encoding.
template <typename Self>
struct StepFields {
  Self& self() { return static_cast<Self&>(*this); }
  void Recipe(auto& recipe) { self().Number(recipe); }
  void Reads(auto& tensors) { self().Numbers(tensors); }
  void Writes(auto& tensors) { self().Numbers(tensors); }
  void Makes(auto& tensors) { self().Numbers(tensors); }
  void Name(auto& text) { self().Text(text, kMaxNameBytes); }
  void Bindings(auto& bindings) { self().List(bindings); }
  void Arguments(auto& arguments) { self().List(arguments); }
};

class Encoder : public StepFields<Encoder> {
 public:
  explicit Encoder(ByteWriter& out) : out_(out) {}

  template <typename T>
  void Number(T value) {
    out_.Put(value);
  }
  void Flag(bool value) { out_.Put<uint8_t>(value); }
  template <typename E>
  void Enum(E value, E /*last*/) {
    out_.Put(value);
  }
  void Text(const std::string& text, size_t /*limit*/) { out_.PutString(text); }
  template <typename T>
  void Numbers(const std::vector<T>& values) {
    out_.PutVector(values);
  }
  void Data(const Bytes& data) { out_.PutBytes(data); }
  void Raw(const Digest& digest) { out_.PutRaw(digest.data(), digest.size()); }
  void Spec(const TensorSpec& spec) { PutSpec(out_, spec); }
  void Value(const Argument& argument) { PutArgument(out_, argument); }
  template <typename T>
  void List(const std::vector<T>& items) {
    out_.Put(static_cast<uint32_t>(items.size()));
    for (const T& item : items) Fields(*this, item);
  }
  void OneStep(const Step& step) {
    out_.Put(static_cast<uint8_t>(step.index()));
    DescribeStep(step, *this);
  }

 private:
  ByteWriter& out_;
};

template <size_t... kKinds>
bool MakeStep(size_t kind, Step* step, std::index_sequence<kKinds...>) {
  return ((kind == kKinds && (step->emplace<kKinds>(), true)) || ...);
}

// The first error sticks, and nothing is read after it. A list grows only by items that were read,
// so that a count alone allocates nothing.
class Decoder : public StepFields<Decoder> {
 public:
  explicit Decoder(std::span<const uint8_t> body) : in_(body) {}
  const absl::Status& status() const { return status_; }
  size_t remaining() const { return in_.remaining(); }

  template <typename T>
  void Number(T& value) {
    if (status_.ok()) status_ = in_.Get(&value);
  }
  void Flag(bool& value) {
    uint8_t raw = 0;
    Number(raw);
    if (raw > 1) Fail(DataLoss("boolean byte ", int{raw}));
    value = raw == 1;
  }
  template <typename E>
  void Enum(E& value, E last) {
    uint8_t raw = 0;
    Number(raw);
    if (raw > static_cast<uint8_t>(last)) {
      Fail(DataLoss("enum value ", int{raw}, " out of range"));
      raw = 0;
    }
    value = static_cast<E>(raw);
  }
  // Longer texts are refused before they are copied.
  void Text(std::string& text, size_t limit) {
    if (!status_.ok()) return;
    ByteReader ahead = in_;
    uint32_t size = 0;
    status_ = ahead.Get(&size);
    if (size > limit) Fail(DataLoss("text of ", size, " bytes, at most ", limit));
    if (status_.ok()) status_ = in_.GetString(&text);
  }
  template <typename T>
  void Numbers(std::vector<T>& values) {
    if (status_.ok()) status_ = in_.GetVector(&values);
  }
  void Data(Bytes& data) {
    std::span<const uint8_t> span;
    if (status_.ok()) status_ = in_.GetBytes(&span);
    data.assign(span.begin(), span.end());
  }
  void Raw(Digest& digest) {
    for (uint8_t& byte : digest) Number(byte);
  }
  void Spec(TensorSpec& spec) {
    if (status_.ok()) status_ = GetSpec(in_, &spec);
  }
  void Value(Argument& argument) {
    if (status_.ok()) status_ = GetArgument(in_, &argument);
  }
  template <typename T>
  void List(std::vector<T>& items) {
    uint32_t count = 0;
    if (status_.ok()) status_ = in_.GetCount(&count, 1);
    for (uint32_t i = 0; i < count && status_.ok(); ++i) Fields(*this, items.emplace_back());
  }
  void OneStep(Step& step) {
    uint8_t kind = 0;
    Number(kind);
    if (!MakeStep(kind, &step, std::make_index_sequence<std::variant_size_v<Step>>())) {
      Fail(DataLoss("unknown step kind ", int{kind}));
    }
    DescribeStep(step, *this);
  }

 private:
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  ByteReader in_;
  absl::Status status_;
};

// `T` is const for the encoder.
template <typename T, typename Plain>
concept Is = std::same_as<std::remove_const_t<T>, Plain>;

template <typename Codec, Is<Argument> T>
void Fields(Codec& codec, T& argument) {
  codec.Value(argument);
}

template <typename Codec, Is<Binding> T>
void Fields(Codec& codec, T& binding) {
  codec.Name(binding.tensor_name);
  codec.Number(binding.tensor);
  codec.Flag(binding.written);
}

template <typename Codec, Is<Step> T>
void Fields(Codec& codec, T& step) {
  codec.OneStep(step);
}

template <typename Codec, Is<ProgramInput> T>
void Fields(Codec& codec, T& input) {
  codec.Enum(input.kind, ProgramInput::Kind::kOffset);
  if (input.kind != ProgramInput::Kind::kScalar) codec.Spec(input.spec);
  codec.Flag(input.mutated);
  codec.Flag(input.on_cpu);
  if (input.kind == ProgramInput::Kind::kOffset) codec.Number(input.draws);
}

template <typename Codec, Is<ProgramTensor> T>
void Fields(Codec& codec, T& tensor) {
  codec.Enum(tensor.placement, Placement::kEager);
  codec.Number(tensor.index);
  codec.Spec(tensor.spec);
}

template <typename Codec, Is<ProgramOutput> T>
void Fields(Codec& codec, T& output) {
  using Kind = ProgramOutput::Kind;
  codec.Enum(output.kind, Kind::kBool);
  codec.Flag(output.returned);
  codec.Flag(output.requires_grad);
  switch (output.kind) {
    case Kind::kTensor:
    case Kind::kInput:
      codec.Number(output.index);
      break;
    case Kind::kInputView:
      codec.Number(output.index);
      codec.Spec(output.view);
      codec.Enum(output.form, kLastAliasForm);
      break;
    case Kind::kInt:
    case Kind::kBool:
      codec.Number(output.int_value);
      break;
    case Kind::kFloat:
      codec.Number(output.float_value);
      break;
    case Kind::kNone:
      break;
  }
}

template <typename Codec, Is<ProgramFunction> T>
void Fields(Codec& codec, T& function) {
  codec.Name(function.name);
  codec.List(function.inputs);
  codec.Numbers(function.buffer_bytes);
  codec.List(function.tensors);
  codec.List(function.steps);
  codec.List(function.outputs);
  codec.Number(function.node_count);
  codec.Number(function.eager_node_count);
}

template <typename Codec, Is<SavedValue> T>
void Fields(Codec& codec, T& saved) {
  codec.Number(saved.output);
  codec.Number(saved.input);
  codec.Flag(saved.donated);
}

template <typename Codec, Is<GradientPair> T>
void Fields(Codec& codec, T& pair) {
  codec.Number(pair.forward);
  codec.Number(pair.backward);
}

template <typename Codec, Is<ProgramConstant> T>
void Fields(Codec& codec, T& constant) {
  codec.Spec(constant.spec);
  codec.Data(constant.data);
}

template <typename Codec, Is<RecipeRef> T>
void Fields(Codec& codec, T& recipe) {
  codec.Raw(recipe.digest);
  codec.Number(recipe.size_bytes);
}

template <typename Codec, Is<Program> T>
void Fields(Codec& codec, T& program) {
  codec.List(program.recipes);
  codec.List(program.constants);
  codec.List(program.functions);
  codec.List(program.saved);
  codec.List(program.tangents);
  codec.List(program.gradients);
  codec.Flag(program.deterministic);
}

}  // namespace

Bytes EncodeProgram(const Program& program) {
  ByteWriter out = BeginContainer(kKind);
  Encoder encoder(out);
  Fields(encoder, program);
  return SealContainer(std::move(out));
}

absl::StatusOr<Program> DecodeProgram(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const std::span<const uint8_t> body, OpenContainer(kKind, bytes));
  Decoder decoder(body);
  Program program;
  Fields(decoder, program);
  RETURN_IF_ERROR_AT(decoder.status(), "program");
  if (decoder.remaining() != 0)
    return DataLoss("program: ", decoder.remaining(), " bytes left over");
  RETURN_IF_ERROR_AT(ValidateProgram(program), "program");
  return program;
}

}  // namespace hpu
