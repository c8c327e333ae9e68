// captured graph := head, u64 size of the first part, first part, labels, checksum
// first part     := inputs, constants, schemas, calls, outputs, alias forms, tangents, gradients
// labels         := graph name, name of each input, distinct sources, source of each call
#include <unordered_map>
#include <utility>

#include "base/container.h"
#include "graph/captured_graph.h"

namespace hpu {
namespace {

constexpr ContainerKind kKind{
    {'H', 'P', 'U', 'G', 'R', 'A', 'F', '\0'}, kCapturedGraphVersion, "captured graph"};

absl::Status GetBool(ByteReader& in, bool* value) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw > 1) return DataLoss("boolean byte ", int{raw});
  *value = raw == 1;
  return absl::OkStatus();
}

// Writes a list: its length, then each item. `least` is the least number of bytes that an item
// takes.
template <typename T, typename Put>
void PutList(ByteWriter& out, const std::vector<T>& items, const Put& put) {
  out.Put(static_cast<uint32_t>(items.size()));
  for (const T& item : items) put(out, item);
}
template <typename T, typename Get>
absl::Status GetList(ByteReader& in, size_t least, std::vector<T>* items, const Get& get) {
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, least));
  items->resize(count);
  for (T& item : *items) RETURN_IF_ERROR(get(in, &item));
  return absl::OkStatus();
}

// The properties of a tensor input, in one byte.
constexpr uint8_t kWeightBit = 1;
constexpr uint8_t kTrainedBit = 2;

void PutInput(ByteWriter& out, const CapturedInput& input) {
  out.Put(input.kind);
  if (input.kind == CapturedInput::Kind::kScalar) return;
  PutSpec(out, input.spec);
  out.Put<uint8_t>(input.on_cpu);
  out.Put<uint8_t>((input.is_weight ? kWeightBit : 0) | (input.is_trained ? kTrainedBit : 0));
}
absl::Status GetInput(ByteReader& in, CapturedInput* input) {
  bool scalar = false;
  RETURN_IF_ERROR(GetBool(in, &scalar));
  input->kind = scalar ? CapturedInput::Kind::kScalar : CapturedInput::Kind::kTensor;
  if (scalar) return absl::OkStatus();
  RETURN_IF_ERROR(GetSpec(in, &input->spec));
  RETURN_IF_ERROR(GetBool(in, &input->on_cpu));
  uint8_t bits = 0;
  RETURN_IF_ERROR(in.Get(&bits));
  if ((bits & ~(kWeightBit | kTrainedBit)) != 0) {
    return DataLoss("an input has unknown properties: bits ", int{bits});
  }
  input->is_weight = (bits & kWeightBit) != 0;
  input->is_trained = (bits & kTrainedBit) != 0;
  return absl::OkStatus();
}

void PutConstant(ByteWriter& out, const CapturedConstant& constant) {
  PutSpec(out, constant.spec);
  out.PutBytes(constant.data);
}
absl::Status GetConstant(ByteReader& in, CapturedConstant* constant) {
  RETURN_IF_ERROR(GetSpec(in, &constant->spec));
  std::span<const uint8_t> data;
  RETURN_IF_ERROR(in.GetBytes(&data));
  constant->data.assign(data.begin(), data.end());
  return absl::OkStatus();
}

void PutText(ByteWriter& out, const std::string& text) { out.PutString(text); }
absl::Status GetText(ByteReader& in, std::string* text) { return in.GetString(text); }

void PutSchema(ByteWriter& out, const OpSchema& schema) {
  out.PutString(schema.target);
  PutList(out, schema.arguments, PutText);
}
absl::Status GetSchema(ByteReader& in, OpSchema* schema) {
  RETURN_IF_ERROR(in.GetString(&schema->target));
  return GetList(in, 4, &schema->arguments, GetText);
}

void PutResult(ByteWriter& out, const CapturedResult& result) {
  PutSpec(out, result.spec);
  out.Put(result.memory_of);
}
absl::Status GetResult(ByteReader& in, CapturedResult* result) {
  RETURN_IF_ERROR(GetSpec(in, &result->spec));
  return in.Get(&result->memory_of);
}

void PutCall(ByteWriter& out, const CapturedCall& call) {
  out.Put(call.schema);
  PutList(out, call.args, PutArgument);
  PutList(out, call.results, PutResult);
  out.PutVector(call.writes);
  out.Put<uint8_t>(call.draws_random);
}
absl::Status GetCall(ByteReader& in, CapturedCall* call) {
  RETURN_IF_ERROR(in.Get(&call->schema));
  RETURN_IF_ERROR(GetList(in, 1, &call->args, GetArgument));
  RETURN_IF_ERROR(GetList(in, 21, &call->results, GetResult));
  RETURN_IF_ERROR(in.GetVector(&call->writes));
  return GetBool(in, &call->draws_random);
}

void PutAliasForm(ByteWriter& out, AliasForm form) { out.Put(form); }
absl::Status GetAliasForm(ByteReader& in, AliasForm* form) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw > static_cast<uint8_t>(kLastAliasForm)) return DataLoss("alias form ", int{raw});
  *form = static_cast<AliasForm>(raw);
  return absl::OkStatus();
}

void PutTangent(ByteWriter& out, const CapturedTangent& pair) {
  out.Put(pair.output);
  out.Put(pair.tangent);
}
absl::Status GetTangent(ByteReader& in, CapturedTangent* pair) {
  RETURN_IF_ERROR(in.Get(&pair->output));
  return in.Get(&pair->tangent);
}

void PutGradient(ByteWriter& out, const CapturedGradient& pair) {
  out.Put(pair.input);
  out.Put(pair.gradient);
}
absl::Status GetGradient(ByteReader& in, CapturedGradient* pair) {
  RETURN_IF_ERROR(in.Get(&pair->input));
  return in.Get(&pair->gradient);
}

Bytes EncodeContent(const CapturedGraph& graph) {
  ByteWriter out;
  PutList(out, graph.inputs, PutInput);
  PutList(out, graph.constants, PutConstant);
  PutList(out, graph.schemas, PutSchema);
  PutList(out, graph.calls, PutCall);
  PutList(out, graph.outputs, PutArgument);
  PutList(out, graph.alias_forms, PutAliasForm);
  PutList(out, graph.tangents, PutTangent);
  PutList(out, graph.gradients, PutGradient);
  return out.Take();
}

absl::Status DecodeContent(std::span<const uint8_t> bytes, CapturedGraph* graph) {
  ByteReader in(bytes);
  RETURN_IF_ERROR_AT(GetList(in, 1, &graph->inputs, GetInput), "inputs");
  RETURN_IF_ERROR_AT(GetList(in, 25, &graph->constants, GetConstant), "constants");
  RETURN_IF_ERROR_AT(GetList(in, 8, &graph->schemas, GetSchema), "schemas");
  RETURN_IF_ERROR_AT(GetList(in, 17, &graph->calls, GetCall), "calls");
  RETURN_IF_ERROR_AT(GetList(in, 1, &graph->outputs, GetArgument), "outputs");
  RETURN_IF_ERROR_AT(GetList(in, 1, &graph->alias_forms, GetAliasForm), "alias forms");
  RETURN_IF_ERROR_AT(GetList(in, 8, &graph->tangents, GetTangent), "tangents");
  RETURN_IF_ERROR_AT(GetList(in, 8, &graph->gradients, GetGradient), "gradients");
  if (in.remaining() != 0) return DataLoss(in.remaining(), " bytes behind the gradients");
  return absl::OkStatus();
}

void PutLabels(ByteWriter& out, const CapturedGraph& graph) {
  out.PutString(graph.name);
  for (const CapturedInput& input : graph.inputs) out.PutString(input.name);
  std::vector<std::string> sources;
  std::vector<uint32_t> source_of;
  std::unordered_map<std::string_view, uint32_t> known;
  for (const CapturedCall& call : graph.calls) {
    const auto [place, is_new] = known.emplace(call.source, static_cast<uint32_t>(sources.size()));
    if (is_new) sources.push_back(call.source);
    source_of.push_back(place->second);
  }
  PutList(out, sources, PutText);
  out.PutVector(source_of);
}

absl::Status GetLabels(ByteReader& in, CapturedGraph* graph) {
  RETURN_IF_ERROR(in.GetString(&graph->name));
  for (CapturedInput& input : graph->inputs) RETURN_IF_ERROR(in.GetString(&input.name));
  std::vector<std::string> sources;
  std::vector<uint32_t> source_of;
  RETURN_IF_ERROR(GetList(in, 4, &sources, GetText));
  RETURN_IF_ERROR(in.GetVector(&source_of));
  if (source_of.size() != graph->calls.size()) {
    return DataLoss(source_of.size(), " sources for ", graph->calls.size(), " calls");
  }
  // This is checked before the texts are copied to the calls, because millions of calls could refer
  // to one long text.
  for (const std::string& source : sources) {
    if (source.size() > kMaxLabelBytes) return DataLoss("a source of ", source.size(), " bytes");
  }
  for (size_t i = 0; i < source_of.size(); ++i) {
    if (source_of[i] >= sources.size()) return DataLoss("call ", i, ": no source ", source_of[i]);
    graph->calls[i].source = sources[source_of[i]];
  }
  if (in.remaining() != 0) return DataLoss(in.remaining(), " bytes behind the labels");
  return absl::OkStatus();
}

absl::StatusOr<std::span<const uint8_t>> OpenContent(std::span<const uint8_t> bytes,
                                                     std::span<const uint8_t>* labels) {
  ASSIGN_OR_RETURN(const std::span<const uint8_t> body, OpenContainer(kKind, bytes));
  ByteReader in(body);
  std::span<const uint8_t> content;
  RETURN_IF_ERROR_AT(in.GetBytes(&content), "captured graph");
  *labels = body.subspan(in.position());
  return content;
}

absl::StatusOr<CapturedGraph> Decode(std::span<const uint8_t> content,
                                     std::span<const uint8_t> labels) {
  CapturedGraph graph;
  RETURN_IF_ERROR(DecodeContent(content, &graph));
  ByteReader in(labels);
  RETURN_IF_ERROR_AT(GetLabels(in, &graph), "labels");
  RETURN_IF_ERROR(ValidateGraph(graph));
  return graph;
}

}  // namespace

Bytes EncodeGraph(const CapturedGraph& graph) {
  ByteWriter out = BeginContainer(kKind);
  out.PutBytes(EncodeContent(graph));
  PutLabels(out, graph);
  return SealContainer(std::move(out));
}

absl::StatusOr<CapturedGraph> DecodeGraph(std::span<const uint8_t> bytes) {
  std::span<const uint8_t> labels;
  ASSIGN_OR_RETURN(const std::span<const uint8_t> content, OpenContent(bytes, &labels));
  absl::StatusOr<CapturedGraph> graph = Decode(content, labels);
  if (!graph.ok()) return Annotate(graph.status(), "captured graph");
  return graph;
}

absl::StatusOr<Digest> GraphDigest(std::span<const uint8_t> bytes) {
  std::span<const uint8_t> labels;
  ASSIGN_OR_RETURN(const std::span<const uint8_t> content, OpenContent(bytes, &labels));
  return Sha256(content);
}

}  // namespace hpu
