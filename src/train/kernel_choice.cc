#include "train/kernel_choice.h"

#include <fmt/format.h>

#include "base/or_list.h"

namespace trireme {

Result<KernelChoice> choose_kernels(IsaChoice isa) {
  const std::vector<Isa> supported = supported_isas();
  if (supported.empty()) {
    return Error{ErrorKind::Runtime, "this processor has no AVX2 and FMA: no kernels run on it"};
  }
  if (isa == IsaChoice::Auto) return KernelChoice{&cpu_kernels(supported.back()), supported.back()};
  if (isa == IsaChoice::Reference) return KernelChoice{&reference_kernels(), supported.front()};
  std::vector<std::string> names = {"auto", "reference"};
  for (const Isa here : supported) {
    if (name_of(isa) == name_of(here)) return KernelChoice{&cpu_kernels(here), here};
    names.emplace_back(name_of(here));
  }
  return usage(fmt::format("run.isa = \"{}\" is not available on this processor; use {}",
                           name_of(isa), or_list(names)));
}

}  // namespace trireme
