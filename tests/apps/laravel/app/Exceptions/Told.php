<?php
namespace App\Exceptions;

/** Goes its way as any exception, but into no log. */
class Told extends \RuntimeException
{
    public function report() {}
}
