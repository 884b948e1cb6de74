! SPDX-License-Identifier: Apache-2.0
!
! sizes.f90 - the types of yoke.f90 are as large as those of the header, with the same last members.
program sizes
    use, intrinsic :: iso_c_binding
    use yoke
    implicit none
    type(yoke_optimizer) :: optimizer
    type(yoke_trainer_options) :: options
    type(yoke_result) :: result
    interface
        integer(c_size_t) function test_size(of) bind(c)
            import
            integer(c_int), value :: of
        end function
    end interface

    call compare('yoke_optimizer', c_sizeof(optimizer), 1)
    call compare('yoke_trainer_options', c_sizeof(options), 2)
    call compare('yoke_result', c_sizeof(result), 3)
    call compare('yoke_feed', yoke_feed_size, 4)
    optimizer = yoke_adamw(0.5_c_float, 0.25_c_float)
    if (optimizer%kind /= 2 .or. nint(8 * optimizer%learning_rate) /= 4 .or. &
        nint(8 * optimizer%weight_decay) /= 2) &
        error stop 'yoke_adamw() gives other numbers'

contains

    subroutine compare(name, size, of)
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: size
        integer, intent(in) :: of

        if (size == test_size(of)) return
        print '(2a, i0, a, i0, a)', name, ' has ', size, ' bytes in yoke.f90, ', test_size(of), ' in C'
        error stop 1
    end subroutine
end program
