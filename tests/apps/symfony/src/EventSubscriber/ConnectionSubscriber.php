<?php
namespace App\EventSubscriber;

use App\Service\ConnectionFactory;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\HttpKernel\Event\TerminateEvent;

/** With CONNECTION_PER_REQUEST a worker script opens the database for each request, as a snapshot does. */
final class ConnectionSubscriber implements EventSubscriberInterface
{
    public static function getSubscribedEvents(): array { return [TerminateEvent::class => 'onTerminate']; }
    public function onTerminate(): void { if (isset($_SERVER['CONNECTION_PER_REQUEST'])) { ConnectionFactory::$last?->close(); } }
}
