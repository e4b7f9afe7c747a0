#include "propagator/report/vtk.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "propagator/core/base64.h"
#include "propagator/core/error.h"
#include "propagator/report/html.h"

namespace propagator::report {
namespace {

constexpr const char* kByteOrder =
    std::endian::native == std::endian::little ? "LittleEndian" : "BigEndian";

// The nodes along an axis, from the smaller coordinate to the larger.
struct Grid {
  double origin = 0, spacing = 1;
};

Grid grid_of(const Axis& axis, int64_t nodes) {
  const double length = std::abs(axis.last - axis.first);
  if (nodes < 2 || length == 0) return {axis.first, 1};
  return {std::min(axis.first, axis.last),
          length / static_cast<double>(nodes - 1)};
}

// (T, R, C) with x and y rising. Axes without extent lie as they are drawn: row
// 0 at the top.
torch::Tensor rising(const torch::Tensor& fields, const Axis& x,
                     const Axis& y) {
  std::vector<int64_t> falling;
  if (y.first >= y.last) falling.push_back(1);
  if (x.first > x.last) falling.push_back(2);
  return fields.detach().to(torch::kCPU, torch::kFloat64).flip(falling);
}

const char* type_of(const torch::Tensor& values) {
  if (values.scalar_type() == torch::kInt64) return "Int64";
  return values.scalar_type() == torch::kFloat64 ? "Float64" : "Float32";
}

std::string data_array(const std::string& name, const torch::Tensor& field,
                       int64_t components = 1) {
  const auto values = field.contiguous();
  const uint64_t size = values.nbytes();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(static_cast<const char*>(values.data_ptr()), size);
  return fmt::format(
      "<DataArray type=\"{}\" Name=\"{}\"{} format=\"binary\">\n"
      "{}\n</DataArray>\n",
      type_of(field), escaped(name),
      components == 1 ? ""
                      : fmt::format(" NumberOfComponents=\"{}\"", components),
      base64(bytes));
}

// All arrays at one time as an image file. VTK has three axes always.
std::string image_data(const GridSeries& series, int64_t frame) {
  std::vector<std::string> extents, origins, spacings;
  for (size_t n = 0; n < 3; ++n) {
    const bool has = n < series.axes.size();
    const int64_t nodes =
        has ? series.arrays.front().values.size(-1 - static_cast<int64_t>(n))
            : 1;
    const Grid grid = has ? grid_of(series.axes[n], nodes) : Grid{};
    extents.push_back(fmt::format("0 {}", nodes - 1));
    origins.push_back(fmt::format("{}", grid.origin));
    spacings.push_back(fmt::format("{}", grid.spacing));
  }
  auto text = fmt::format(
      "<?xml version=\"1.0\"?>\n"
      "<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"{0}\" "
      "header_type=\"UInt64\">\n"
      "<ImageData WholeExtent=\"{1}\" Origin=\"{2}\" Spacing=\"{3}\">\n"
      "<Piece Extent=\"{1}\">\n<PointData Scalars=\"{4}\">\n",
      kByteOrder, fmt::join(extents, " "), fmt::join(origins, " "),
      fmt::join(spacings, " "), escaped(series.arrays.front().name));
  for (const auto& [name, values] : series.arrays) {
    text += data_array(name, values[frame]);
  }
  return text +
         "</PointData>\n<CellData/>\n</Piece>\n</ImageData>\n</VTKFile>\n";
}

}  // namespace

fs::path write_vtk(const GridSeries& series, const fs::path& folder) {
  if (fs::exists(folder)) {
    throw UsageError(folder.string() + " exists already",
                     "remove it, or choose another folder");
  }
  auto single = series;  // enough to look at
  for (auto& array : single.arrays) {
    array.values = array.values.to(torch::kFloat32);
  }
  write_directory_atomically(folder, [&](const fs::path& inside) {
    std::string list = fmt::format(
        "<?xml version=\"1.0\"?>\n"
        "<VTKFile type=\"Collection\" version=\"1.0\" byte_order=\"{}\">\n"
        "<Collection>\n",
        kByteOrder);
    for (size_t t = 0; t < series.times.size(); ++t) {
      const std::string name = fmt::format("frame_{:04}.vti", t);
      write_file(inside / name, image_data(single, static_cast<int64_t>(t)));
      list += fmt::format("<DataSet timestep=\"{}\" part=\"0\" file=\"{}\"/>\n",
                          series.times[t], name);
    }
    list += "</Collection>\n</VTKFile>\n";
    write_file(inside / "series.pvd", list);
  });
  return folder / "series.pvd";
}

void write_image(const GridSeries& series, const fs::path& path) {
  write_file_atomically(path, image_data(series, 0));
}

void write_points(const torch::Tensor& points,
                  const std::vector<GridSeries::Array>& arrays,
                  const fs::path& path) {
  const int64_t count = points.size(0);
  auto text = fmt::format(
      "<?xml version=\"1.0\"?>\n"
      "<VTKFile type=\"PolyData\" version=\"1.0\" byte_order=\"{}\" "
      "header_type=\"UInt64\">\n<PolyData>\n"
      "<Piece NumberOfPoints=\"{}\" NumberOfVerts=\"{}\" NumberOfLines=\"0\" "
      "NumberOfStrips=\"0\" NumberOfPolys=\"0\">\n<PointData>\n",
      kByteOrder, count, count);
  for (const auto& [name, values] : arrays) text += data_array(name, values);
  text += "</PointData>\n<Points>\n" + data_array("points", points, 3) +
          "</Points>\n<Verts>\n" +
          data_array("connectivity", torch::arange(count, torch::kInt64)) +
          data_array("offsets", torch::arange(1, count + 1, torch::kInt64));
  write_file_atomically(path,
                        text + "</Verts>\n</Piece>\n</PolyData>\n</VTKFile>\n");
}

fs::path write_vtk(const FieldSeries& series, int64_t index,
                   const fs::path& folder) {
  const auto truth = rising(series.truth[index], series.x, series.y);
  const auto prediction = rising(series.prediction[index], series.x, series.y);
  return write_vtk({.times = series.times,
                    .axes = {series.x, series.y},
                    .arrays = {{"truth", truth},
                               {"prediction", prediction},
                               {"error", prediction - truth}}},
                   folder);
}

}  // namespace propagator::report
