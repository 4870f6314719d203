#include "session/image_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.h"
#include "data/image_set.h"
#include "data/image_source.h"
#include "data/image_split.h"
#include "data/synthetic_images.h"

namespace trireme {
namespace {

using Images = std::shared_ptr<const ImageSet>;

constexpr int64_t kSyntheticImages = 10000;
constexpr int64_t kSyntheticHeldOut = 1000;

ImageExtents extents_of(const ModelConfig& model) {
  return {model.image_size, model.image_size, model.image_channels};
}

// `name` says what the path is, such as "data.train = ".
Result<Images> open_set(const char* name, const std::string& path, const char* split,
                        const RunConfig& config) {
  const ImageExtents wanted = extents_of(config.model);
  Result<std::unique_ptr<ImageSet>> set = open_image_set(path, split, wanted);
  if (!set.ok()) {
    return Error{set.error().kind,
                 fmt::format("{}\"{}\" cannot be used: {}", name, path, set.error().message)};
  }
  const ImageExtents found = (*set)->extents();
  if (found == wanted) return Images(std::move(*set));
  return usage(
      fmt::format("{}\"{}\" has images of {} x {} x {}, and the model reads {} x {} x "
                  "{}: set model.image_size and model.image_channels",
                  name, path, found.height, found.width, found.channels, wanted.height,
                  wanted.width, wanted.channels));
}

Result<Images> open_train(const RunConfig& config) {
  if (config.data.train.empty()) {
    return usage(
        "data.train is empty: name a set of images (trireme data images), or set "
        "data.source = \"synthetic\"");
  }
  return open_set("data.train = ", config.data.train, "train", config);
}

// Both sets must mean the same by a class.
Status check_held_out_classes(const ImageSet& val, const ImageSet& train, const RunConfig& config,
                              int64_t num_classes) {
  const auto refuse = [&](const std::string& why) {
    return usage(fmt::format("data.val = \"{}\" {}", config.data.val, why));
  };
  if (val.num_classes() > num_classes) {
    return refuse(
        fmt::format("has images of {} classes, and the model tells {} apart: take a set "
                    "with the classes of data.train",
                    val.num_classes(), num_classes));
  }
  for (int64_t label = 0; label < std::min(val.num_classes(), train.num_classes()); ++label) {
    const std::string held_out = val.class_name(label), trained = train.class_name(label);
    if (held_out == trained) continue;
    return refuse(
        fmt::format("calls class {} {}, and data.train calls it {}: give both a folder "
                    "for every class, with the same names",
                    label, held_out, trained));
  }
  return Done{};
}

// The number of images, and a hash of the first ones with their classes: reading all of a large
// folder would take too long.
std::string identity_of(const ImageSet& images) {
  constexpr int64_t kHashed = 100;
  std::vector<uint8_t> bytes(size_t(images.extents().bytes()));
  Hasher64 hasher;
  for (int64_t i = 0; i < std::min(images.size(), kHashed); ++i) {
    const int32_t label = images.read(i, bytes);
    hasher.update(std::as_bytes(std::span(bytes)));
    hasher.update(std::as_bytes(std::span(&label, 1)));
  }
  return fmt::format("images-{}-{}", images.size(), hex64(hasher.digest()));
}

std::unique_ptr<TokenSource> held_out(const Images& images, uint64_t seed) {
  return std::make_unique<ImageSource>(images, seed, ImageAugmentation{});
}

}  // namespace

Result<int64_t> num_image_classes(const RunConfig& config) {
  const bool is_given = config.model.vocab_size > 0 && config.data.train.empty();
  if (config.data.source != DataSource::Images || is_given) return int64_t{0};
  TRIREME_TRY(train, open_train(config));
  return train->num_classes();
}

Result<EvaluatedImages> open_evaluated_images(const std::string& path, const RunConfig& config,
                                              int64_t num_classes) {
  TRIREME_TRY(images, open_set("", path, "test", config));
  if (images->size() == 0) return usage(path + " has no image to evaluate");
  if (images->num_classes() > num_classes) {
    return usage(fmt::format("{} has images of {} classes, and the model tells {} apart", path,
                             images->num_classes(), num_classes));
  }
  return EvaluatedImages{held_out(images, config.run.seed), images->size()};
}

Result<SessionData> open_image_data(const RunConfig& config, int64_t num_classes) {
  SessionData data;
  const uint64_t seed = config.run.seed;
  const ImageAugmentation augmentation{config.data.flip, config.data.crop_margin};
  if (config.data.source == DataSource::Synthetic) {
    const ImageExtents extents = extents_of(config.model);
    const auto make = [&](int64_t size, const char* split) {
      return std::make_shared<SyntheticImages>(seed, extents, num_classes, size, split);
    };
    data.train = std::make_unique<ImageSource>(make(kSyntheticImages, "train"), seed, augmentation);
    data.validation = held_out(make(kSyntheticHeldOut, "val"), seed);
    data.identity = fmt::format("synthetic-images-{}-{}", seed, num_classes);
    return data;
  }
  TRIREME_TRY(images, open_train(config));
  Images train = images, val;
  if (!config.data.val.empty()) {
    TRIREME_TRY(opened, open_set("data.val = ", config.data.val, "test", config));
    val = opened;
    TRIREME_TRY_DONE(check_held_out_classes(*val, *images, config, num_classes));
  } else if (config.data.val_fraction > 0.0) {
    const auto part = [&](ImageSplit::Part which) {
      return std::make_shared<ImageSplit>(images, config.data.val_fraction, which);
    };
    train = part(ImageSplit::Part::Training);
    val = part(ImageSplit::Part::HeldOut);
  }
  if (train->size() == 0 || (val != nullptr && val->size() == 0)) {
    return usage("data.val_fraction leaves no image to train with or to hold out: change it");
  }
  data.train = std::make_unique<ImageSource>(train, seed, augmentation);
  if (val != nullptr) data.validation = held_out(val, seed);
  data.identity = identity_of(*train);
  return data;
}

}  // namespace trireme
