! The Fortran interface: a trained run as a function of arrays, in place.
!
!   type(pg_run) :: run
!   real(c_float), target :: first(1, 3, 8, 8), future(1, 16, 8, 8), alpha(1)
!
!   call run%open('runs/demo', status)
!   call run%apply([pg_array('fields', first), pg_array('alpha', alpha)], &
!                  [pg_array('fields', future)], status)
!   if (status /= PG_OK) print '(a)', pg_last_error()
!   call run%close(status)
!
! Axes are in the order in which the documentation names them, fields(case, frame,
! row, column), and arrays or sections of them are read and written where they
! are: nothing is copied. `reversed=.true.` takes them the other way round,
! fields(column, row, frame, case), which is how C and the library itself lay them
! out. Arrays that are passed to pg_array must have the attribute `target`.
!
! Fortran 2018. Compile it with your own compiler, and link with -lpropagator;
! propagator.h says what holds of every call.
module propagator
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: pg_run, pg_tensor, pg_port, pg_array, pg_last_error, pg_version

  ! What a call gives in `status`.
  integer, parameter, public :: PG_OK = 0
  integer, parameter, public :: PG_FAILURE = 1
  integer, parameter, public :: PG_USAGE = 2
  integer, parameter, public :: PG_DATA = 3
  integer, parameter, public :: PG_NUMERICAL = 4
  integer, parameter, public :: PG_DEVICE = 5

  integer, parameter :: max_rank = 8, max_name = 128
  integer(c_int32_t), parameter :: type_float32 = 1, type_float64 = 2

  ! An array under a name, where it lies in memory.
  type :: pg_tensor
    private
    character(len=max_name) :: name = ''
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: shape(max_rank) = 0, strides(max_rank) = 0
    integer(c_int32_t) :: rank = 0, type = 0
  end type

  ! What a model takes or gives under a name. -1 stands for any length.
  type :: pg_port
    character(len=:), allocatable :: name, meaning
    integer(c_int64_t), allocatable :: shape(:)
  end type

  ! A trained run. A copy of it is the same run, which is closed once.
  type :: pg_run
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => open_run
    procedure :: close => close_run
    procedure :: inputs => input_ports
    procedure :: outputs => output_ports
    procedure :: apply => apply_run
    procedure :: output_shape => shape_of_output
  end type

  ! pg_array(name, values [, reversed]): values of type real(c_float) or
  ! real(c_double), of rank 0 to 6.
  interface pg_array
    module procedure array_float32, array_float64
  end interface

  ! The structs of propagator.h.
  type, bind(c) :: c_options
    integer(c_size_t) :: size
    type(c_ptr) :: device = c_null_ptr, precision = c_null_ptr
    integer(c_int64_t) :: threads = 0
  end type

  type, bind(c) :: c_tensor
    type(c_ptr) :: name, data, shape, strides
    integer(c_int32_t) :: rank, type, device = 0, device_index = 0
  end type

  type, bind(c) :: c_port
    type(c_ptr) :: name, meaning, shape
    integer(c_int32_t) :: rank
  end type

  interface
    function c_version() bind(c, name='pg_version') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_last_error() bind(c, name='pg_last_error') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_open(folder, options, run) bind(c, name='pg_open') &
        result(status)
      import :: c_char, c_int, c_options, c_ptr
      character(kind=c_char), intent(in) :: folder(*)
      type(c_options), intent(in) :: options
      type(c_ptr), intent(out) :: run
      integer(c_int) :: status
    end function
    function c_close(run) bind(c, name='pg_close') result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: run
      integer(c_int) :: status
    end function
    function c_inputs(run, ports, count) bind(c, name='pg_inputs') &
        result(status)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: run
      type(c_ptr), intent(out) :: ports
      integer(c_size_t), intent(out) :: count
      integer(c_int) :: status
    end function
    function c_outputs(run, ports, count) bind(c, name='pg_outputs') &
        result(status)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: run
      type(c_ptr), intent(out) :: ports
      integer(c_size_t), intent(out) :: count
      integer(c_int) :: status
    end function
    function c_apply(run, inputs, input_count, outputs, output_count) &
        bind(c, name='pg_apply') result(status)
      import :: c_int, c_ptr, c_size_t, c_tensor
      type(c_ptr), value :: run
      type(c_tensor), intent(in) :: inputs(*), outputs(*)
      integer(c_size_t), value :: input_count, output_count
      integer(c_int) :: status
    end function
    function c_output_shape(run, inputs, input_count, output, shape, rank) &
        bind(c, name='pg_output_shape') result(status)
      import :: c_char, c_int, c_int32_t, c_int64_t, c_ptr, c_size_t, c_tensor
      type(c_ptr), value :: run
      type(c_tensor), intent(in) :: inputs(*)
      integer(c_size_t), value :: input_count
      character(kind=c_char), intent(in) :: output(*)
      integer(c_int64_t), intent(out) :: shape(*)
      integer(c_int32_t), intent(out) :: rank
      integer(c_int) :: status
    end function
    function c_strlen(text) bind(c, name='strlen') result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  function pg_version() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_version())
  end function

  ! Why the last call of this thread failed; '' if it succeeded.
  function pg_last_error() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_last_error())
  end function

  subroutine open_run(run, folder, status, device, precision, threads)
    class(pg_run), intent(inout) :: run
    character(len=*), intent(in) :: folder
    integer, intent(out) :: status
    character(len=*), intent(in), optional :: device, precision
    integer, intent(in), optional :: threads
    character(len=:, kind=c_char), allocatable, target :: where, how
    type(c_options) :: options

    options%size = c_sizeof(options)
    if (present(device)) then
      where = trim(device)//c_null_char
      options%device = c_loc(where)
    end if
    if (present(precision)) then
      how = trim(precision)//c_null_char
      options%precision = c_loc(how)
    end if
    if (present(threads)) options%threads = threads
    status = c_open(trim(folder)//c_null_char, options, run%handle)
  end subroutine

  subroutine close_run(run, status)
    class(pg_run), intent(inout) :: run
    integer, intent(out) :: status
    status = c_close(run%handle)
    run%handle = c_null_ptr
  end subroutine

  subroutine input_ports(run, ports, status)
    class(pg_run), intent(in) :: run
    type(pg_port), allocatable, intent(out) :: ports(:)
    integer, intent(out) :: status
    type(c_ptr) :: first
    integer(c_size_t) :: count
    status = c_inputs(run%handle, first, count)
    if (status == PG_OK) call read_ports(first, count, ports)
  end subroutine

  subroutine output_ports(run, ports, status)
    class(pg_run), intent(in) :: run
    type(pg_port), allocatable, intent(out) :: ports(:)
    integer, intent(out) :: status
    type(c_ptr) :: first
    integer(c_size_t) :: count
    status = c_outputs(run%handle, first, count)
    if (status == PG_OK) call read_ports(first, count, ports)
  end subroutine

  ! Computes the outputs that are named into their arrays.
  subroutine apply_run(run, inputs, outputs, status)
    class(pg_run), intent(in) :: run
    type(pg_tensor), intent(in), target :: inputs(:), outputs(:)
    integer, intent(out) :: status
    character(kind=c_char, len=max_name + 1), target :: &
        input_names(size(inputs)), output_names(size(outputs))
    status = c_apply(run%handle, c_tensors(inputs, input_names), &
                     size(inputs, kind=c_size_t), &
                     c_tensors(outputs, output_names), &
                     size(outputs, kind=c_size_t))
  end subroutine

  ! The shape that an output has for these inputs, in the library's order.
  subroutine shape_of_output(run, inputs, output, shape, status)
    class(pg_run), intent(in) :: run
    type(pg_tensor), intent(in), target :: inputs(:)
    character(len=*), intent(in) :: output
    integer(c_int64_t), allocatable, intent(out) :: shape(:)
    integer, intent(out) :: status
    character(kind=c_char, len=max_name + 1), target :: names(size(inputs))
    integer(c_int64_t) :: lengths(max_rank)
    integer(c_int32_t) :: rank
    status = c_output_shape(run%handle, c_tensors(inputs, names), &
                            size(inputs, kind=c_size_t), &
                            trim(output)//c_null_char, lengths, rank)
    if (status == PG_OK) shape = lengths(:rank)
  end subroutine

  ! As C sees them; `names` has room for what ends in a null character.
  function c_tensors(tensors, names) result(all)
    type(pg_tensor), intent(in), target :: tensors(:)
    character(kind=c_char, len=max_name + 1), intent(out), target :: names(:)
    type(c_tensor) :: all(size(tensors))
    integer :: n
    do n = 1, size(tensors)
      names(n) = trim(tensors(n)%name)//c_null_char
      all(n)%name = c_loc(names(n))
      all(n)%data = tensors(n)%data
      all(n)%shape = c_loc(tensors(n)%shape)
      all(n)%strides = c_loc(tensors(n)%strides)
      all(n)%rank = tensors(n)%rank
      all(n)%type = tensors(n)%type
    end do
  end function

  subroutine read_ports(first, count, ports)
    type(c_ptr), intent(in) :: first
    integer(c_size_t), intent(in) :: count
    type(pg_port), allocatable, intent(out) :: ports(:)
    type(c_port), pointer :: all(:)
    integer(c_int64_t), pointer :: shape(:)
    integer :: n
    call c_f_pointer(first, all, [count])
    allocate (ports(count))
    do n = 1, size(all)
      ports(n)%name = text_of(all(n)%name)
      ports(n)%meaning = text_of(all(n)%meaning)
      call c_f_pointer(all(n)%shape, shape, [all(n)%rank])
      ports(n)%shape = shape
    end do
  end subroutine

  function text_of(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: n
    call c_f_pointer(pointer, letters, [c_strlen(pointer)])
    allocate (character(len=size(letters)) :: text)
    do n = 1, size(letters)
      text(n:n) = letters(n)
    end do
  end function

  ! Everything of a tensor but its strides, which hold distances in bytes so far.
  subroutine finish(tensor, name, type, bytes, lengths, reversed)
    type(pg_tensor), intent(inout) :: tensor
    character(len=*), intent(in) :: name
    integer(c_int32_t), intent(in) :: type
    integer(c_int64_t), intent(in) :: bytes, lengths(:)
    logical, intent(in), optional :: reversed
    integer :: n
    n = size(lengths)
    tensor%name = name
    tensor%type = type
    tensor%rank = n
    tensor%shape(:n) = lengths
    tensor%strides(:n) = tensor%strides(:n)/bytes
    if (.not. present(reversed)) return
    if (.not. reversed) return
    tensor%shape(:n) = tensor%shape(n:1:-1)
    tensor%strides(:n) = tensor%strides(n:1:-1)
  end subroutine

  ! Where an array begins, and how far from there its next element is along each
  ! axis.
  subroutine place(tensor, first, next)
    type(pg_tensor), intent(inout) :: tensor
    type(c_ptr), intent(in) :: first, next(:)
    integer :: n
    tensor%data = first
    do n = 1, size(next)
      tensor%strides(n) = transfer(next(n), 0_c_intptr_t) &
                          - transfer(first, 0_c_intptr_t)
    end do
  end subroutine

  function array_float32(name, values, reversed) result(tensor)
    character(len=*), intent(in) :: name
    real(c_float), intent(in), target :: values(..)
    logical, intent(in), optional :: reversed
    type(pg_tensor) :: tensor
    integer :: n(rank(values))
    n = min(2, shape(values))  ! the next along an axis, if it has one
    if (all(n > 0)) then
      select rank (values)
      rank (0)
        call place(tensor, c_loc(values), [c_ptr ::])
      rank (1)
        call place(tensor, c_loc(values(1)), &
                   [c_loc(values(n(1)))])
      rank (2)
        call place(tensor, c_loc(values(1, 1)), &
                   [c_loc(values(n(1), 1)), &
                    c_loc(values(1, n(2)))])
      rank (3)
        call place(tensor, c_loc(values(1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1)), &
                    c_loc(values(1, n(2), 1)), &
                    c_loc(values(1, 1, n(3)))])
      rank (4)
        call place(tensor, c_loc(values(1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1)), &
                    c_loc(values(1, 1, n(3), 1)), &
                    c_loc(values(1, 1, 1, n(4)))])
      rank (5)
        call place(tensor, c_loc(values(1, 1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1, 1)), &
                    c_loc(values(1, 1, n(3), 1, 1)), &
                    c_loc(values(1, 1, 1, n(4), 1)), &
                    c_loc(values(1, 1, 1, 1, n(5)))])
      rank (6)
        call place(tensor, c_loc(values(1, 1, 1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1, 1, 1)), &
                    c_loc(values(1, 1, n(3), 1, 1, 1)), &
                    c_loc(values(1, 1, 1, n(4), 1, 1)), &
                    c_loc(values(1, 1, 1, 1, n(5), 1)), &
                    c_loc(values(1, 1, 1, 1, 1, n(6)))])
      end select
    end if
    call finish(tensor, name, type_float32, 4_c_int64_t, &
                shape(values, kind=c_int64_t), reversed)
  end function

  function array_float64(name, values, reversed) result(tensor)
    character(len=*), intent(in) :: name
    real(c_double), intent(in), target :: values(..)
    logical, intent(in), optional :: reversed
    type(pg_tensor) :: tensor
    integer :: n(rank(values))
    n = min(2, shape(values))  ! the next along an axis, if it has one
    if (all(n > 0)) then
      select rank (values)
      rank (0)
        call place(tensor, c_loc(values), [c_ptr ::])
      rank (1)
        call place(tensor, c_loc(values(1)), &
                   [c_loc(values(n(1)))])
      rank (2)
        call place(tensor, c_loc(values(1, 1)), &
                   [c_loc(values(n(1), 1)), &
                    c_loc(values(1, n(2)))])
      rank (3)
        call place(tensor, c_loc(values(1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1)), &
                    c_loc(values(1, n(2), 1)), &
                    c_loc(values(1, 1, n(3)))])
      rank (4)
        call place(tensor, c_loc(values(1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1)), &
                    c_loc(values(1, 1, n(3), 1)), &
                    c_loc(values(1, 1, 1, n(4)))])
      rank (5)
        call place(tensor, c_loc(values(1, 1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1, 1)), &
                    c_loc(values(1, 1, n(3), 1, 1)), &
                    c_loc(values(1, 1, 1, n(4), 1)), &
                    c_loc(values(1, 1, 1, 1, n(5)))])
      rank (6)
        call place(tensor, c_loc(values(1, 1, 1, 1, 1, 1)), &
                   [c_loc(values(n(1), 1, 1, 1, 1, 1)), &
                    c_loc(values(1, n(2), 1, 1, 1, 1)), &
                    c_loc(values(1, 1, n(3), 1, 1, 1)), &
                    c_loc(values(1, 1, 1, n(4), 1, 1)), &
                    c_loc(values(1, 1, 1, 1, n(5), 1)), &
                    c_loc(values(1, 1, 1, 1, 1, n(6)))])
      end select
    end if
    call finish(tensor, name, type_float64, 8_c_int64_t, &
                shape(values, kind=c_int64_t), reversed)
  end function

end module
