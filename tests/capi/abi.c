/* Describes what a compiled program knows of the C interface: numbers of the
 * enums, sizes and offsets of the structs. (A 64-bit system is meant.) */

#include <propagator/capi/propagator.h>
#include <stdio.h>

#define NUMBER(name) printf("number %s %d\n", #name, (int)(name))
#define TYPE(type) printf("size %s %lu\n", #type, (unsigned long)sizeof(type))
#define FIELD(type, field)                               \
  printf("field %s.%s at %lu of %lu\n", #type, #field,   \
         (unsigned long)offsetof(type, field),           \
         (unsigned long)sizeof(((type *)NULL)->field))

int main(void) {
  NUMBER(PG_OK);
  NUMBER(PG_FAILURE);
  NUMBER(PG_USAGE);
  NUMBER(PG_DATA);
  NUMBER(PG_NUMERICAL);
  NUMBER(PG_DEVICE);
  NUMBER(PG_FLOAT32);
  NUMBER(PG_FLOAT64);
  NUMBER(PG_INT32);
  NUMBER(PG_INT64);
  NUMBER(PG_CPU);
  NUMBER(PG_CUDA);
  NUMBER(PG_MAX_RANK);
  TYPE(pg_status);
  TYPE(pg_options);
  FIELD(pg_options, size);
  FIELD(pg_options, device);
  FIELD(pg_options, precision);
  FIELD(pg_options, threads);
  TYPE(pg_tensor);
  FIELD(pg_tensor, name);
  FIELD(pg_tensor, data);
  FIELD(pg_tensor, shape);
  FIELD(pg_tensor, strides);
  FIELD(pg_tensor, rank);
  FIELD(pg_tensor, type);
  FIELD(pg_tensor, device);
  FIELD(pg_tensor, device_index);
  TYPE(pg_port);
  FIELD(pg_port, name);
  FIELD(pg_port, meaning);
  FIELD(pg_port, shape);
  FIELD(pg_port, rank);
  return 0;
}
