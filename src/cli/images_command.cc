#include "cli/images_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "base/json_text.h"
#include "base/units.h"
#include "cli/path_checks.h"
#include "cli/text_options.h"
#include "data/image_set.h"
#include "device/thread_team.h"

namespace trireme {
namespace {

// Reads every image, and returns the number of images of each class. If several images are damaged,
// the error names the first one.
Result<std::vector<int64_t>> count_classes(const ImageSet& images, ThreadTeam& team) {
  constexpr int64_t kImagesAtOnce = 16;
  std::mutex mutex;
  std::vector<int64_t> counts(size_t(images.num_classes()), 0);
  int64_t first_damaged = images.size();
  std::string why;
  team.parallel_for((images.size() + kImagesAtOnce - 1) / kImagesAtOnce, [&](int64_t tile, int) {
    std::vector<uint8_t> pixels(size_t(images.extents().bytes()));
    const int64_t begin = tile * kImagesAtOnce;
    const int64_t end = std::min(begin + kImagesAtOnce, images.size());
    for (int64_t image = begin; image < end; ++image) {
      try {
        const int32_t label = images.read(image, pixels);
        const std::lock_guard lock(mutex);
        ++counts[size_t(label)];
      } catch (const IoError& error) {
        const std::lock_guard lock(mutex);
        if (image >= first_damaged) continue;
        first_damaged = image;
        why = error.what();
      }
    }
  });
  if (first_damaged < images.size()) return damaged(why);
  return counts;
}

void print_set(const ImageSet& images, const std::string& path, const std::vector<int64_t>& counts,
               std::ostream& out) {
  const ImageExtents extents = images.extents();
  out << fmt::format("{}: {} images of {} x {} pixels, {}, {} classes\n", path, images.size(),
                     extents.height, extents.width, extents.channels == 1 ? "grey" : "in colour",
                     images.num_classes());
  for (size_t label = 0; label < counts.size(); ++label) {
    out << fmt::format("class {}: {} images\n", images.class_name(int64_t(label)), counts[label]);
  }
}

void print_set_as_json(const ImageSet& images, const std::string& path,
                       const std::vector<int64_t>& counts, std::ostream& out) {
  const ImageExtents extents = images.extents();
  nlohmann::ordered_json object = {{"path", path},
                                   {"images", images.size()},
                                   {"height", extents.height},
                                   {"width", extents.width},
                                   {"channels", extents.channels},
                                   {"classes", nlohmann::ordered_json::array()}};
  for (size_t label = 0; label < counts.size(); ++label) {
    object["classes"].push_back(
        {{"name", images.class_name(int64_t(label))}, {"images", counts[label]}});
  }
  out << lenient_json_text(object) << '\n';
}

}  // namespace

Status run_data_images(const DataImagesOptions& options, std::ostream& out, std::ostream& err) {
  constexpr int64_t kMostSize = 4096;
  if (options.size < 1 || options.size > kMostSize) {
    return usage(fmt::format("--size {} must be from 1 to {}", options.size, kMostSize));
  }
  TRIREME_TRY_DONE(require_here(options.path));
  std::error_code ignored;
  if (!std::filesystem::exists(options.path, ignored)) {
    return usage(options.path + ": no such file or folder");
  }
  TRIREME_TRY(images, open_image_set(options.path, options.split, {options.size, options.size, 3}));
  ThreadTeam team(thread_count(options.num_threads));
  const auto start = std::chrono::steady_clock::now();
  TRIREME_TRY(counts, count_classes(*images, team));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  (options.json ? print_set_as_json : print_set)(*images, options.path, counts, out);
  err << fmt::format("read {} images in {} on {} threads: {:.0f} images per second\n",
                     images->size(), format_seconds(seconds), team.size(),
                     double(images->size()) / seconds);
  return Done{};
}

}  // namespace trireme
