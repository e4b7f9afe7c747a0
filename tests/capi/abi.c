/* Describes what a compiled program knows of the C interface: numbers of the
 * enums, sizes and offsets of the structs. (A 64-bit system is meant.) Types of
 * arguments and fields leave no trace in a library: they are said again here, and
 * a header that says otherwise does not compile. */

#include <propagator/capi/propagator.h>
#include <stdio.h>

/* Each function as its callers were compiled. */
const char *pg_version(void);
const char *pg_last_error(void);
pg_status pg_open(const char *, const pg_options *, pg_run **);
pg_status pg_close(pg_run *);
pg_status pg_inputs(const pg_run *, const pg_port **, size_t *);
pg_status pg_outputs(const pg_run *, const pg_port **, size_t *);
pg_status pg_apply(const pg_run *, const pg_tensor *, size_t, const pg_tensor *,
                   size_t);
pg_status pg_output_shape(const pg_run *, const pg_tensor *, size_t,
                          const char *, int64_t *, int32_t *);

typedef const char *text;
typedef const int64_t *lengths;
typedef void *memory;

#define NUMBER(name) printf("number %s %d\n", #name, (int)(name))
#define TYPE(type) printf("size %s %lu\n", #type, (unsigned long)sizeof(type))
#define FIELD(type, field, field_type)                    \
  do {                                                    \
    type one;                                             \
    field_type *typed = &one.field;                       \
    printf("field %s.%s at %lu of %lu\n", #type, #field,  \
           (unsigned long)offsetof(type, field),          \
           (unsigned long)sizeof(*typed));                \
  } while (0)

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
  FIELD(pg_options, size, size_t);
  FIELD(pg_options, device, text);
  FIELD(pg_options, precision, text);
  FIELD(pg_options, threads, int64_t);
  TYPE(pg_tensor);
  FIELD(pg_tensor, name, text);
  FIELD(pg_tensor, data, memory);
  FIELD(pg_tensor, shape, lengths);
  FIELD(pg_tensor, strides, lengths);
  FIELD(pg_tensor, rank, int32_t);
  FIELD(pg_tensor, type, int32_t);
  FIELD(pg_tensor, device, int32_t);
  FIELD(pg_tensor, device_index, int32_t);
  TYPE(pg_port);
  FIELD(pg_port, name, text);
  FIELD(pg_port, meaning, text);
  FIELD(pg_port, shape, lengths);
  FIELD(pg_port, rank, int32_t);
  return 0;
}
