#include "interchange/torchvision_resnet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors_writer.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

constexpr const char* kImageSizeKey = "trireme.image_size";
constexpr int64_t kUsualImageSize = 224;
constexpr int kGroups = 4;
constexpr int64_t kUsualChannels = 64;

// A tensor of the file and the parameter that holds its elements. Filters are [filter, channel,
// row, column] in the file and [filter, row, column, channel] here; other tensors are alike.
struct TorchTensor {
  std::string name;
  std::string param;
  std::vector<int64_t> extents;  // in the file
  bool is_filter() const { return extents.size() == 4; }
  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    return count;
  }
};

std::string block_name(int64_t layers, int64_t layer) {
  const ResNetPlace place = resnet_place(layers, layer);
  return fmt::format("layer{}.{}.", place.group + 1, place.block);
}

// The tensors of the file in the order of our parameters, of which Weights has the shapes.
class TensorList {
 public:
  explicit TensorList(const Weights& weights) : weights_(weights) {
    conv("conv1", "stem.conv", 7);
    norm("bn1", "stem.norm");
    for (int64_t block = 0; block < weights.model().layers; ++block) add_block(block);
    add("fc.weight", "head.weight", {shape("head.weight")[0], shape("head.weight")[1]});
    add("fc.bias", "head.bias", {shape("head.bias")[0]});
  }
  std::vector<TorchTensor> take() { return std::move(tensors_); }

 private:
  Shape shape(const std::string& param) const { return weights_.shape_of(param); }

  void add_block(int64_t block) {
    const std::string theirs = block_name(weights_.model().layers, block),
                      ours = fmt::format("layers.{}.", block);
    for (const int number : {1, 2, 3}) {
      conv(fmt::format("{}conv{}", theirs, number), fmt::format("{}conv{}", ours, number),
           number == 2 ? 3 : 1);
      norm(fmt::format("{}bn{}", theirs, number), fmt::format("{}norm{}", ours, number));
    }
    if (!weights_.contains(ours + "conv_shortcut.w")) return;
    conv(theirs + "downsample.0", ours + "conv_shortcut", 1);
    norm(theirs + "downsample.1", ours + "norm_shortcut");
  }
  void conv(const std::string& theirs, const std::string& ours, int64_t size) {
    const Shape filters = shape(ours + ".w");
    add(theirs + ".weight", ours + ".w", {filters[0], filters[1] / (size * size), size, size});
  }
  void norm(const std::string& theirs, const std::string& ours) {
    const std::pair<const char*, const char*> endings[] = {{".weight", ".gain"},
                                                           {".bias", ".bias"},
                                                           {".running_mean", ".mean"},
                                                           {".running_var", ".variance"}};
    for (const auto& [their, our] : endings) {
      add(theirs + their, ours + our, {shape(ours + our)[0]});
    }
  }
  void add(std::string name, std::string param, std::vector<int64_t> extents) {
    tensors_.push_back({std::move(name), std::move(param), std::move(extents)});
  }

  const Weights& weights_;
  std::vector<TorchTensor> tensors_;
};

// Visits the elements of a tensor in the order of the file: visit(theirs, ours).
template <typename Visit>
void for_each_element(const TorchTensor& tensor, Visit&& visit) {
  if (!tensor.is_filter()) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) visit(i, i);
    return;
  }
  const int64_t filters = tensor.extents[0], channels = tensor.extents[1];
  const int64_t window = tensor.extents[2] * tensor.extents[3];
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t pixel = 0; pixel < window; ++pixel) {
        visit((f * channels + c) * window + pixel, (f * window + pixel) * channels + c);
      }
    }
  }
}

// Reads the extents of the net from the names and shapes of a file.
class ResNetHeader {
 public:
  ResNetHeader(const std::string& path, const SafetensorsHeader& header)
      : path_(path), header_(header) {}

  Result<ModelConfig> config() const {
    ModelConfig config;
    TRIREME_TRY(blocks, num_blocks());
    TRIREME_TRY(channels, extent("conv1.weight", 4, 1));
    TRIREME_TRY(base, extent("conv1.weight", 4, 0));
    TRIREME_TRY(reduced, extent("layer1.0.conv1.weight", 4, 0));
    TRIREME_TRY(inner, extent("layer1.0.conv2.weight", 4, 0));
    TRIREME_TRY(classes, extent("fc.weight", 2, 0));
    config.layers = blocks;
    config.image_channels = channels;
    config.vocab_size = classes;
    config.width_factor = std::max<int64_t>(1, inner / std::max<int64_t>(1, base));
    config.widen_first_conv = reduced == inner;
    config.base_channels = base == kUsualChannels ? 0 : base;
    const bool is_usual = config.width_factor == 1 && config.base_channels == 0 &&
                          config.widen_first_conv && blocks <= kBlocksOfResNet50;
    config.family = is_usual ? ModelFamily::ResNet50 : ModelFamily::WideResNet;
    config.seq_len = 1;
    config.image_size = kUsualImageSize;
    const auto written = header_.metadata.find(kImageSizeKey);
    if (written == header_.metadata.end()) return config;
    const std::string& text = written->second;
    std::from_chars(text.data(), text.data() + text.size(), config.image_size);
    return config;
  }

 private:
  Result<int64_t> num_blocks() const {
    int64_t blocks[kGroups] = {}, total = 0;
    for (int group = 0; group < kGroups; ++group) {
      while (has(fmt::format("layer{}.{}.conv1.weight", group + 1, blocks[group]))) ++blocks[group];
      total += blocks[group];
    }
    int64_t usual[kGroups] = {};
    for (int64_t layer = 0; layer < total; ++layer) ++usual[resnet_place(total, layer).group];
    for (int group = kGroups; group-- > 0;) {
      if (blocks[group] == usual[group]) continue;
      return infeasible(fmt::format(
          "{}: layer{} has {} blocks; what is read are the 3, 4, 6 and 3 blocks of ResNet-50, the "
          "first ones of them, or the 3, 4, 23 and 3 blocks of ResNet-101",
          path_, group + 1, blocks[group]));
    }
    return total;
  }
  bool has(const std::string& name) const { return header_.find(name) != nullptr; }
  Result<int64_t> extent(const std::string& name, size_t rank, size_t dim) const {
    const SafetensorsEntry* entry = header_.find(name);
    if (entry != nullptr && entry->extents.size() == rank) return entry->extents[dim];
    return damaged(fmt::format("{}: {} has not {} dims", path_, name, rank));
  }

  const std::string& path_;
  const SafetensorsHeader& header_;
};

Status check_entry(const std::string& path, const TorchTensor& tensor,
                   const SafetensorsEntry* entry) {
  if (entry == nullptr) {
    return infeasible(
        fmt::format("{}: no tensor {}, which a ResNet of bottlenecks has", path, tensor.name));
  }
  if (entry->extents != tensor.extents) {
    return damaged(fmt::format("{}: {} is [{}], a ResNet-50 of this width has [{}]", path,
                               tensor.name, fmt::join(entry->extents, ", "),
                               fmt::join(tensor.extents, ", ")));
  }
  if (!entry->dtype || !is_convertible(*entry->dtype, DType::F32)) {
    return infeasible(fmt::format("{}: {} is of {}; F32, F16, BF16 and F64 are read", path,
                                  tensor.name, entry->dtype_name));
  }
  return Done{};
}

Status check_names(const std::string& path, const SafetensorsHeader& header,
                   const std::vector<TorchTensor>& tensors) {
  std::set<std::string_view> known;
  for (const TorchTensor& tensor : tensors) {
    TRIREME_TRY_DONE(check_entry(path, tensor, header.find(tensor.name)));
    known.insert(tensor.name);
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    if (known.contains(entry.name) || entry.name.ends_with(".num_batches_tracked")) continue;
    return infeasible(fmt::format("{}: {} is no tensor of ResNet-50", path, entry.name));
  }
  return Done{};
}

Status read_tensor(const SafetensorsFile& file, const TorchTensor& tensor, std::span<float> param) {
  const SafetensorsEntry& entry = *file.header().find(tensor.name);
  std::vector<std::byte> bytes(size_t(entry.end - entry.begin));
  TRIREME_TRY_DONE(file.read(entry, 0, bytes));
  std::vector<float> elements(size_t(tensor.num_elements()));
  const int64_t bad =
      copy_converted(bytes.data(), *entry.dtype, reinterpret_cast<std::byte*>(elements.data()),
                     DType::F32, tensor.num_elements());
  if (bad >= 0) {
    return damaged(
        fmt::format("{}: {} has a NaN or Inf at element {}", file.path(), tensor.name, bad));
  }
  for_each_element(tensor, [&](int64_t theirs, int64_t ours) {
    param[size_t(ours)] = elements[size_t(theirs)];
  });
  return Done{};
}

}  // namespace

bool is_torchvision_resnet(const SafetensorsHeader& header) {
  for (const char* name :
       {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "fc.weight"}) {
    if (header.find(name) == nullptr) return false;
  }
  return true;
}

Result<InterchangeModel> read_torchvision_resnet(const std::string& path) {
  TRIREME_TRY(file, SafetensorsFile::open(path));
  TRIREME_TRY(config, ResNetHeader(path, file.header()).config());
  Result<ModelSpec> spec = resolve_model(config, 0);
  if (!spec.ok()) return with_context(spec.error(), path);
  InterchangeModel model{.config = config, .weights = Weights(*spec)};
  const std::vector<TorchTensor> tensors = TensorList(model.weights).take();
  TRIREME_TRY_DONE(check_names(path, file.header(), tensors));
  for (const TorchTensor& tensor : tensors) {
    TRIREME_TRY_DONE(read_tensor(file, tensor, model.weights.at(tensor.param)));
  }
  if (file.header().find("conv1.weight")->dtype == DType::BF16) model.dtype = DType::BF16;
  return model;
}

Status write_torchvision_resnet(const InterchangeModel& model, const std::string& path,
                                DType dtype) {
  const ModelSpec& spec = model.weights.model();
  if (spec.family != ModelFamily::ResNet50 && spec.family != ModelFamily::WideResNet) {
    return infeasible(
        fmt::format("--format torchvision holds resnet50 and wide_resnet, and the model is a {}",
                    name_of(spec.family)));
  }
  const std::vector<TorchTensor> tensors = TensorList(model.weights).take();
  std::vector<SafetensorsSpec> specs;
  for (const TorchTensor& tensor : tensors) {
    specs.push_back({tensor.name, dtype, Shape(std::span<const int64_t>(tensor.extents))});
  }
  TRIREME_TRY(writer, SafetensorsWriter::create(
                          path, specs,
                          {{"format", "pt"}, {kImageSizeKey, fmt::to_string(spec.image_size)}}));
  for (const TorchTensor& tensor : tensors) {
    const std::span<const float> param = model.weights.at(tensor.param);
    std::vector<float> elements(param.size());
    for_each_element(tensor, [&](int64_t theirs, int64_t ours) {
      elements[size_t(theirs)] = param[size_t(ours)];
    });
    std::vector<std::byte> bytes(elements.size() * size_t(size_of(dtype)));
    const int64_t bad = copy_converted(reinterpret_cast<const std::byte*>(elements.data()),
                                       DType::F32, bytes.data(), dtype, int64_t(elements.size()));
    if (bad >= 0) {
      return infeasible(
          fmt::format("{}: element {} of {} is {}, which {} cannot hold; take another "
                      "--dtype",
                      path, bad, tensor.name, elements[size_t(bad)], name_of(dtype)));
    }
    TRIREME_TRY_DONE(writer.write(bytes));
  }
  TRIREME_TRY(written, writer.finish());
  (void)written;
  return Done{};
}

}  // namespace trireme
