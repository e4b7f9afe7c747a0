#include "propagator/data/hdf5_attributes.h"

#include <fmt/format.h>

#include "propagator/core/plain_text.h"

namespace propagator::data {
namespace {

constexpr hssize_t kMostEntries = 4096;
constexpr size_t kLongestText = 64'000;  // HDF5's own limit for attributes

struct OpenAttribute {
  OpenAttribute(hid_t object, const char* name) {
    if (H5Aexists(object, name) <= 0) return;
    attribute = Handle(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
    if (!attribute.valid()) return;
    type = Handle(H5Aget_type(attribute), H5Tclose);
    space = Handle(H5Aget_space(attribute), H5Sclose);
    const hssize_t entries = H5Sget_simple_extent_npoints(space);
    if (entries > 0 && entries <= kMostEntries) {
      count = static_cast<size_t>(entries);
    }
  }

  Handle attribute, type, space;
  size_t count = 0;
};

std::vector<std::string> texts_of_any_length(const OpenAttribute& a) {
  std::vector<char*> pointers(a.count, nullptr);
  if (H5Aread(a.attribute, a.type, pointers.data()) < 0) return {};
  std::vector<std::string> texts;
  for (const char* text : pointers) {
    texts.emplace_back(text == nullptr ? "" : text);
  }
  H5Dvlen_reclaim(a.type, a.space, H5P_DEFAULT, pointers.data());
  return texts;
}

herr_t add_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> names;
  hsize_t at = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, &add_name, &names);
  return names;
}

std::vector<std::string> text_attribute(hid_t object, const char* name) {
  const OpenAttribute a(object, name);
  if (a.count == 0 || H5Tget_class(a.type) != H5T_STRING) return {};
  if (H5Tis_variable_str(a.type) > 0) return texts_of_any_length(a);
  const size_t size = H5Tget_size(a.type);
  if (size == 0 || size * a.count > kLongestText) return {};
  std::string all(size * a.count, '\0');
  if (H5Aread(a.attribute, a.type, all.data()) < 0) return {};
  std::vector<std::string> texts;
  for (size_t n = 0; n < a.count; ++n) {
    const auto text = all.substr(n * size, size);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

std::vector<double> number_attribute(hid_t object, const char* name) {
  const OpenAttribute a(object, name);
  if (a.count == 0) return {};
  const auto kind = H5Tget_class(a.type);
  if (kind == H5T_ENUM && H5Tget_size(a.type) == 1) {
    std::vector<signed char> flags(a.count);
    if (H5Aread(a.attribute, a.type, flags.data()) < 0) return {};
    return {flags.begin(), flags.end()};
  }
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return {};
  std::vector<double> numbers(a.count);
  if (H5Aread(a.attribute, H5T_NATIVE_DOUBLE, numbers.data()) < 0) return {};
  return numbers;
}

std::string missing_filter(hid_t dataset) {
  constexpr H5Z_filter_t kLzf = 32000;
  const Handle made(H5Dget_create_plist(dataset), H5Pclose);
  const int filters = made.valid() ? H5Pget_nfilters(made) : 0;
  for (int n = 0; n < filters; ++n) {
    unsigned flags = 0, settings = 0;
    size_t count = 0;
    char name[64] = "";
    const auto id =
        H5Pget_filter2(made, static_cast<unsigned>(n), &flags, &count, nullptr,
                       sizeof(name), name, &settings);
    if (id < 0 || H5Zfilter_avail(id) > 0) continue;
    name[sizeof(name) - 1] = '\0';
    return fmt::format("{} ({})", id == kLzf ? "LZF" : plain_text(name), id);
  }
  return "";
}

}  // namespace propagator::data
