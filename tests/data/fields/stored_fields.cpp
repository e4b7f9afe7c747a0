#include "data/fields/stored_fields.h"

#include <hdf5.h>

namespace propagator::testing {
namespace {

hid_t truth_type() {
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  signed char value = 0;
  H5Tenum_insert(type, "FALSE", &value);
  value = 1;
  H5Tenum_insert(type, "TRUE", &value);
  return type;
}

std::vector<hsize_t> extent_of(const torch::Tensor& values) {
  return {values.sizes().begin(), values.sizes().end()};
}

void write_array(hid_t file, const std::string& name, hid_t stored,
                 hid_t memory, const torch::Tensor& values) {
  const auto extent = extent_of(values);
  const hid_t space = extent.empty()
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(extent.size()),
                                             extent.data(), nullptr);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t dataset = H5Dcreate2(file, name.c_str(), stored, space, links,
                                   H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data_ptr());
  H5Dclose(dataset);
  H5Pclose(links);
  H5Sclose(space);
}

}  // namespace

StoredFields::StoredFields(const std::filesystem::path& path, bool checksums) {
  H5dont_atexit();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (checksums) H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
  file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
}

StoredFields::~StoredFields() { H5Fclose(file_); }

void StoredFields::group(const std::string& name) {
  if (H5Lexists(file_, name.c_str(), H5P_DEFAULT) > 0) return;
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  H5Gclose(H5Gcreate2(file_, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT));
  H5Pclose(links);
}

void StoredFields::array(const std::string& name, const torch::Tensor& values) {
  write_array(file_, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
              values.to(torch::kFloat32).contiguous());
}

void StoredFields::mask(const std::string& name, const torch::Tensor& values) {
  const hid_t type = truth_type();
  write_array(file_, name, type, type, values.to(torch::kInt8).contiguous());
  H5Tclose(type);
}

void StoredFields::attribute(const std::string& object, const std::string& name,
                             int64_t type, int64_t count, const void* values) {
  const auto extent = static_cast<hsize_t>(count);
  const hid_t space = count == 0 ? H5Screate(H5S_SCALAR)
                                 : H5Screate_simple(1, &extent, nullptr);
  const hid_t made =
      H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space,
                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(made, type, values);
  H5Aclose(made);
  H5Sclose(space);
}

void StoredFields::flags(const std::string& object, const std::string& name,
                         const std::vector<bool>& values, bool one) {
  const std::vector<signed char> bytes(values.begin(), values.end());
  const hid_t type = truth_type();
  attribute(object, name, type, one ? 0 : std::ssize(bytes), bytes.data());
  H5Tclose(type);
}

void StoredFields::text(const std::string& object, const std::string& name,
                        const std::string& value) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  const char* pointer = value.c_str();
  attribute(object, name, type, 0, &pointer);
  H5Tclose(type);
}

void StoredFields::texts(const std::string& object, const std::string& name,
                         const std::vector<std::string>& values) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  std::vector<const char*> pointers;
  for (const auto& value : values) pointers.push_back(value.c_str());
  attribute(object, name, type, std::ssize(pointers), pointers.data());
  H5Tclose(type);
}

void StoredFields::number(const std::string& object, const std::string& name,
                          double value) {
  attribute(object, name, H5T_NATIVE_DOUBLE, 0, &value);
}

void StoredFields::packed(const std::string& name) {
  constexpr H5Z_filter_t kLzf = 32000;
  const hsize_t extent[] = {2, 2, 2}, at[] = {0, 0, 0};
  const hid_t space = H5Screate_simple(3, extent, nullptr);
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(made, 3, extent);
  H5Pset_filter(made, kLzf, H5Z_FLAG_OPTIONAL, 0, nullptr);
  const hid_t dataset = H5Dcreate2(file_, name.c_str(), H5T_IEEE_F32LE, space,
                                   H5P_DEFAULT, made, H5P_DEFAULT);
  const std::string bytes = "packed";
  H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, bytes.size(), bytes.data());
  H5Dclose(dataset);
  H5Pclose(made);
  H5Sclose(space);
}

}  // namespace propagator::testing
